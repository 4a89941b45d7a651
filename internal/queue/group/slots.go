package group

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/record"
)

// claim is this node's share of the slots and the rate of a group, on a store that
// several nodes share. The lock of the backlog guards it.
type claim struct {
	have    int       // slots, as stored
	renewed time.Time // when the last stored renewal was sent
	asking  bool      // a goroutine is asking the store
	again   bool      // it shall ask once more
	tries   int       // consecutive ones that gained nothing
	seen    map[string]sighting
	read    sighting // the last change of the record itself
}

// sighting is the last state seen of another node, and since when it has not changed.
type sighting struct {
	beat  uint64
	since time.Time
}

func (c *claim) held() bool { return c.have > 0 || c.asking }

// expire removes the nodes that have not renewed their slots for longer than stale. It
// uses the clock of this node alone.
func (c *claim) expire(s *record.Slots, self string, now time.Time, stale time.Duration) {
	left := s.Nodes[:0]
	seen := make(map[string]sighting, len(s.Nodes))
	for _, n := range s.Nodes {
		if n.Node != self {
			last, known := c.seen[n.Node]
			if !known || last.beat != n.Beat {
				last = sighting{n.Beat, now}
			}
			if now.Sub(last.since) > stale {
				continue
			}
			seen[n.Node] = last
		}
		left = append(left, n)
	}
	s.Nodes, c.seen = left, seen
}
