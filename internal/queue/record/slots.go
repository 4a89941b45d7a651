package record

import (
	"fmt"
	"math"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// Slots is the record of a group in a store that several nodes share: how many of the
// group's slots each node holds, and what is left of the group's rate. It is changed only
// by conditional puts, so that the sum over the nodes stays within the limit.
type Slots struct {
	Nodes  []Slot
	Tokens float64   // of the rate, as of the moment At
	At     time.Time // by the clock of the store; zero for a full bucket
}

// Slot is what one node holds.
type Slot struct {
	Node  string
	Count int
	Beat  uint64 // rises with each heartbeat of the node
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

// mostSlots bounds how many slots are read from a damaged record.
const mostSlots = 1024

// tokenShift is added to the tokens of a record, so that they can be negative.
const tokenShift = 1 << 40

// Encode returns the record of s for subject.
func (s *Slots) Encode(subject string) []byte {
	w := newRecord(64 * (1 + len(s.Nodes)))
	for _, n := range s.Nodes {
		f := recordWriter{make([]byte, 0, 64)}
		f.text(slotName, n.Node)
		f.number(slotCount, uint64(n.Count))
		f.number(slotBeat, n.Beat)
		w.bytes(slotNode, f.b)
	}
	w.number(slotTokens, math.Float64bits(s.Tokens+tokenShift))
	w.moment(slotAt, s.At)
	return w.seal(subject)
}

// DecodeSlots reads a record that [Slots.Encode] wrote.
func DecodeSlots(subject string, b []byte) (Slots, error) {
	var s Slots
	err := readRecord(subject, b, func(f field) error {
		switch f.tag {
		case slotNode:
			if len(s.Nodes) >= mostSlots {
				return fmt.Errorf("%w: it has too many nodes", job.ErrDamaged)
			}
			var n Slot
			err := readFields(f.v, n.read)
			s.Nodes = append(s.Nodes, n)
			return err
		case slotTokens:
			v, err := f.number()
			if s.Tokens = math.Float64frombits(v) - tokenShift; err == nil && !(math.Abs(s.Tokens) <= tokenShift) {
				return fmt.Errorf("%w: it has %v tokens", job.ErrDamaged, s.Tokens)
			}
			return err
		case slotAt:
			return f.into(&s.At)
		}
		return nil
	})
	if err != nil {
		return Slots{}, fmt.Errorf("slots of a group: %w", err)
	}
	return s, nil
}

func (n *Slot) read(f field) error {
	switch f.tag {
	case slotName:
		n.Node = string(f.v)
	case slotCount:
		return f.into(&n.Count)
	case slotBeat:
		return f.into(&n.Beat)
	}
	return nil
}

// Others returns how many slots the other nodes hold.
func (s *Slots) Others(node string) (n int) {
	for _, o := range s.Nodes {
		if o.Node != node {
			n += o.Count
		}
	}
	return n
}

// Give sets the number of slots that a node holds; zero removes the node.
func (s *Slots) Give(node string, count int) {
	for i := range s.Nodes {
		if s.Nodes[i].Node == node {
			if s.Nodes[i].Count, s.Nodes[i].Beat = count, s.Nodes[i].Beat+1; count == 0 {
				s.Nodes = append(s.Nodes[:i], s.Nodes[i+1:]...)
			}
			return
		}
	}
	if count > 0 {
		s.Nodes = append(s.Nodes, Slot{Node: node, Count: count, Beat: 1})
	}
}
