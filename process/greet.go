package process

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// told handles a message that is not an answer. worker.reading is held.
func (p *Pool) told(w *worker, m wire.Message) error {
	if w.hello == nil {
		return p.greeted(w, m)
	}
	switch m.Kind {
	case protocol.Progress, protocol.Log:
		p.relay(w, m)
	case protocol.Ping:
		p.pinged(w, m)
	case protocol.Started:
		p.mu.Lock()
		defer p.mu.Unlock()
		c := w.flight[int(m.Number)&(len(w.flight)-1)]
		if c == nil || c.number != m.Number {
			return protocol.Invalidf("the worker sent STARTED for task %d, which it does not have", m.Number)
		}
		if w.concurrency > 1 || c.started == 0 {
			c.started = p.now()
		}
	case protocol.Drain:
		p.mu.Lock()
		p.flag(w, ByItself)
		p.mu.Unlock()
	default:
		return protocol.Invalidf("%v from a worker", m.Kind)
	}
	return nil
}

// pinged handles a PING, or the answer to ours.
func (p *Pool) pinged(w *worker, m wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Flags&protocol.Ack != 0 {
		w.ponged = true
		return
	}
	if len(w.control) < 1<<12 { // do not answer a flood
		w.control = w.talk.AppendPong(w.control, m.Aux)
		p.wakeBy(0)
	}
}

// greeted handles the worker's HELLO. worker.reading is held.
func (p *Pool) greeted(w *worker, m wire.Message) error {
	hello, err := w.talk.TakeHello(m)
	if err != nil {
		return err
	}
	_ = w.out.SetDeadline(time.Time{})
	p.mu.Lock()
	if w.exited {
		_ = w.out.SetDeadline(time.Unix(1, 0))
	}
	p.welcome(w, hello, p.now())
	mine := p.claim(w)
	p.mu.Unlock()
	if mine {
		p.flush(w, false)
	}
	return nil
}
