package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// faulty is an engine some of whose methods are replaced by faulty ones.
type faulty struct {
	engine.Engine

	put    func(p engine.Put, done func(uint64, error))
	get    func(m engine.Message, err error) (engine.Message, error)
	delete func(s engine.Stream, seq uint64) error
	walk   func(context.Context, engine.Stream, engine.Walk, func(engine.Message) bool) (uint64, error)
	scan   func(ms []engine.Message) []engine.Message
	take   func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error)
	pause  func(c engine.Consumer, paused bool) error
	close  func() error
	deaf   bool
}

func (f *faulty) Listen(subject string, heard func(string, []byte)) (func(), error) {
	if f.deaf {
		return func() {}, nil
	}
	return f.Engine.Listen(subject, heard)
}

func (f *faulty) Put(p engine.Put, done func(uint64, error)) {
	if f.put != nil {
		f.put(p, done)
		return
	}
	f.Engine.Put(p, done)
}

func (f *faulty) Get(ctx context.Context, s engine.Stream, subject string) (engine.Message, error) {
	m, err := f.Engine.Get(ctx, s, subject)
	if f.get != nil {
		return f.get(m, err)
	}
	return m, err
}

func (f *faulty) Delete(ctx context.Context, s engine.Stream, seq uint64) error {
	if f.delete != nil {
		return f.delete(s, seq)
	}
	return f.Engine.Delete(ctx, s, seq)
}

func (f *faulty) Scan(ctx context.Context, s engine.Stream, subject string, from uint64, limit int) ([]engine.Message, error) {
	ms, err := f.Engine.Scan(ctx, s, subject, from, limit)
	if f.scan != nil {
		ms = f.scan(ms)
	}
	return ms, err
}

func (f *faulty) Walk(ctx context.Context, s engine.Stream, w engine.Walk, visit func(engine.Message) bool) (uint64, error) {
	if f.walk != nil {
		return f.walk(ctx, s, w, visit)
	}
	return f.Engine.Walk(ctx, s, w, visit)
}

func (f *faulty) Take(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
	if f.take != nil {
		return f.take(c, deliver, returned)
	}
	return f.Engine.Take(c, deliver, returned)
}

func (f *faulty) Pause(ctx context.Context, c engine.Consumer, paused bool) error {
	if f.pause != nil {
		return f.pause(c, paused)
	}
	return f.Engine.Pause(ctx, c, paused)
}

func (f *faulty) Close(ctx context.Context) error {
	if f.close != nil {
		return f.close()
	}
	return f.Engine.Close(ctx)
}

// brokenStore opens engines that are broken in one way.
type brokenStore struct {
	Store

	opened  int
	change  func(o *engine.Options)
	breakIt func(f *faulty, opened int)
}

func (s *brokenStore) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	if s.change != nil {
		s.change(&o)
	}
	e, err := s.Store.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	f := &faulty{Engine: e}
	if s.breakIt != nil {
		s.opened++
		s.breakIt(f, s.opened)
	}
	return f, nil
}

// puts changes what is put.
func puts(change func(p *engine.Put)) func(*faulty, int) {
	return func(f *faulty, _ int) {
		f.put = func(p engine.Put, done func(uint64, error)) {
			change(&p)
			f.Engine.Put(p, done)
		}
	}
}

// deliveries changes what is delivered; false keeps it back.
func deliveries(change func(d *engine.Delivery) bool) func(*faulty, int) {
	return func(f *faulty, _ int) {
		f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
			return f.Engine.Take(c, func(d engine.Delivery) {
				if change(&d) {
					deliver(d)
				}
			}, returned)
		}
	}
}

// answers is a receipt some of whose methods do nothing, or other things.
type answers struct {
	engine.Receipt

	ack, extend func()
	nak         func(time.Duration)
	end         func([]engine.Put, func(error))
}

func (a answers) End(puts []engine.Put, done func(error)) {
	if a.end != nil {
		a.end(puts, done)
		return
	}
	a.Receipt.End(puts, done)
}

func (a answers) Ack() {
	if a.ack != nil {
		a.ack()
		return
	}
	a.Receipt.Ack()
}

func (a answers) Nak(d time.Duration) {
	if a.nak != nil {
		a.nak(d)
		return
	}
	a.Receipt.Nak(d)
}

func (a answers) Extend() {
	if a.extend != nil {
		a.extend()
		return
	}
	a.Receipt.Extend()
}

// doer is a taker whose Stop does something else.
type doer struct {
	engine.Taker

	stop func()
}

func (d doer) Stop() { d.stop() }

// lookThenPut asks the engine before it puts, in two steps.
func lookThenPut(f *faulty, _ int) {
	var gate sync.WaitGroup // lets two look before one puts
	gate.Add(2)
	var looked atomic.Int32
	f.put = func(p engine.Put, done func(uint64, error)) {
		_, err := f.Engine.Get(context.Background(), p.Stream, p.Subject)
		if p.New && err == nil {
			done(0, engine.ErrConflict)
			return
		}
		if looked.Add(1) <= 2 {
			gate.Done()
			gate.Wait()
		}
		p.New = false
		f.Engine.Put(p, done)
	}
}

// reverse delivers two by two the wrong way round.
func reverse(f *faulty) {
	f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
		var first *engine.Delivery
		return f.Engine.Take(c, func(d engine.Delivery) {
			if first == nil {
				first = &d
				return
			}
			deliver(d)
			deliver(*first)
			first = nil
		}, returned)
	}
}

// handOutTwice delivers every tenth message to two takers.
func handOutTwice(f *faulty) {
	var mu sync.Mutex
	var last *engine.Delivery
	n := 0
	f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
		return f.Engine.Take(c, func(d engine.Delivery) {
			mu.Lock()
			n++
			if n%10 == 0 && last != nil {
				d.Ack()
				d = *last
			}
			last = &d
			mu.Unlock()
			deliver(d)
		}, returned)
	}
}
