package process

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// direct is what drivers share whose workers get and answer each task by itself, on
// connections of their own.
type direct struct {
	base

	private *confine.Network // of the worker and the host alone; nil for the host's

	answering sync.Mutex // guards answers
	answers   answers

	unread []uint32 // numbers of tasks that the worker had not read when it died; Pool.mu guards it
}

// openNetwork gives the worker a network of its own, if it must not have that of the host.
func (d *direct) openNetwork(spec *confine.Spec) (err error) {
	if d.w.pool.config.ownNetwork() {
		d.private, err = confine.NewNetwork()
		spec.Network = d.private
	}
	return err
}

func (d *direct) close() {
	if d.private != nil {
		_ = d.private.Close()
	}
}

// answer passes an answer to the pool, with what the worker has printed before it.
func (d *direct) answer(number uint32, m *wire.Message, ran time.Duration) {
	w, p := d.w, d.w.pool
	if m.Kind != protocol.Returned {
		w.catchUp()
	}
	m.Number = number
	m.Aux, _ = protocol.Micros(ran)
	d.answering.Lock()
	defer d.answering.Unlock()
	all := append(d.answers.messages[:0], *m)
	d.answers.messages = all
	if err := p.answered(w, &d.answers); err != nil {
		p.hungUp(w, err)
	}
	clear(all) // the body need not be kept
}

// privatePort is the port in a network of a worker's own.
const privatePort = 8080

// clockStep is by how much the deadline that a worker sees may be too early: it is in whole
// milliseconds, and begins before the worker has the task.
const clockStep = 2 * time.Millisecond

// failed returns an answer with an error. One that comes at the deadline is that of the
// deadline.
func failed(o bullpen.Outcome, f failure, limit, ran time.Duration) *wire.Message {
	if o == bullpen.Failed && limit > 0 && ran >= limit-clockStep {
		o = bullpen.Timeout
	}
	b := protocol.BeginPairs(nil, 3)
	b = protocol.AppendPair(b, "type", f.Type)
	b = protocol.AppendPair(b, "message", f.Message)
	return &wire.Message{Kind: protocol.Error, Code: uint16(o), Body: protocol.AppendPair(b, "stack", f.Stack)}
}

// leave signals the worker and all that it has started to end.
func (d *direct) leave() {
	if d.w.child == nil {
		return
	}
	if err := d.w.child.Terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.w.pool.logs.fault(err)
	}
}

// runs returns the only task. What a worker with several tasks prints belongs to none.
func (d *direct) runs() (number uint32, over bool) {
	if d.w.pool.config.Concurrency > 1 {
		return 0, true
	}
	return d.w.oldest, false
}

// verdict suspects every task that the worker has read: it runs each at once.
func (d *direct) verdict(c *call) verdict {
	if slices.Contains(d.unread, c.number) {
		return notStarted
	}
	return suspect
}
