package group

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/record"
)

// claim is what this node has of the slots and the rate of a group, on a store that
// others share. The lock of the backlog guards it.
type claim struct {
	have    int       // slots, as stored
	renewed time.Time // when the last renewal was sent that was stored
	asking  bool      // a goroutine asks the store
	again   bool      // it is to ask once more
	tries   int       // in a row that gave nothing
	seen    map[string]sighting
	read    sighting // of the record itself
}

// sighting is what was seen of another node, and since when nothing else was.
type sighting struct {
	beat  uint64
	since time.Time
}

func (c *claim) held() bool { return c.have > 0 || c.asking }

// expire takes out the nodes that have not renewed what they hold for longer than
// stale, by the clock of this node alone.
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
