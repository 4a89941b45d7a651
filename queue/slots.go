package queue

import (
	"fmt"
	"math"
	"time"
)

// slots is the record of a group on a store that several nodes share: which node
// has how many of the places of its limit, and what is left of its rate. It is
// changed by conditioned puts alone, so that the sum over the nodes holds.
type slots struct {
	nodes  []slot
	tokens float64   // of the rate, as of the moment at
	at     time.Time // by the clock of the store; zero for a full bucket
}

// slot is what one node has.
type slot struct {
	node  string
	count int
	beat  uint64 // rises with each sign of life
}

const (
	slotNode = iota + 1
	slotTokens
	slotAt
)

const (
	slotName = iota + 1
	slotCount
	slotBeat
)

// mostSlots bounds what a damaged record can make us read.
const mostSlots = 1024

// tokenShift lets the tokens of a record be below zero.
const tokenShift = 1 << 40

func (s *slots) encode(subject string) []byte {
	w := newRecord(64 * (1 + len(s.nodes)))
	for _, n := range s.nodes {
		f := recordWriter{make([]byte, 0, 64)}
		f.text(slotName, n.node)
		f.number(slotCount, uint64(n.count))
		f.number(slotBeat, n.beat)
		w.bytes(slotNode, f.b)
	}
	w.number(slotTokens, math.Float64bits(s.tokens+tokenShift))
	w.moment(slotAt, s.at)
	return w.seal(subject)
}

func decodeSlots(subject string, b []byte) (slots, error) {
	var s slots
	err := readRecord(subject, b, func(f field) error {
		switch f.tag {
		case slotNode:
			if len(s.nodes) >= mostSlots {
				return fmt.Errorf("%w: it has too many nodes", errCorrupt)
			}
			var n slot
			err := readFields(f.v, n.read)
			s.nodes = append(s.nodes, n)
			return err
		case slotTokens:
			v, err := f.number()
			if s.tokens = math.Float64frombits(v) - tokenShift; err == nil && !(math.Abs(s.tokens) <= tokenShift) {
				return fmt.Errorf("%w: it has %v tokens", errCorrupt, s.tokens)
			}
			return err
		case slotAt:
			return f.into(&s.at)
		}
		return nil
	})
	if err != nil {
		return slots{}, fmt.Errorf("places of a group: %w", err)
	}
	return s, nil
}

func (n *slot) read(f field) error {
	switch f.tag {
	case slotName:
		n.node = string(f.v)
	case slotCount:
		return f.into(&n.count)
	case slotBeat:
		return f.into(&n.beat)
	}
	return nil
}

// others is how many places other nodes have than one.
func (s *slots) others(node string) (n int) {
	for _, o := range s.nodes {
		if o.node != node {
			n += o.count
		}
	}
	return n
}

// give lets a node have so many places; none takes it out.
func (s *slots) give(node string, count int) {
	for i := range s.nodes {
		if s.nodes[i].node == node {
			if s.nodes[i].count, s.nodes[i].beat = count, s.nodes[i].beat+1; count == 0 {
				s.nodes = append(s.nodes[:i], s.nodes[i+1:]...)
			}
			return
		}
	}
	if count > 0 {
		s.nodes = append(s.nodes, slot{node: node, count: count, beat: 1})
	}
}

// claim is what this node has of the places and the rate of a group, on a store
// that others share. The lock of the yard guards it.
type claim struct {
	have    int       // places, as stored
	renewed time.Time // when the last sign of life was sent that was stored
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

// bury takes out the nodes that have given no sign of life for more than a lease,
// by the clock of this node alone. stale is how long that is.
func (c *claim) bury(s *slots, self string, now time.Time, stale time.Duration) {
	left := s.nodes[:0]
	seen := make(map[string]sighting, len(s.nodes))
	for _, n := range s.nodes {
		if n.node != self {
			last, known := c.seen[n.node]
			if !known || last.beat != n.beat {
				last = sighting{n.beat, now}
			}
			if now.Sub(last.since) > stale {
				continue
			}
			seen[n.node] = last
		}
		left = append(left, n)
	}
	s.nodes, c.seen = left, seen
}
