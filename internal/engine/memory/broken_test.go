package memory

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/enginetest"
)

// brokenVariable names the environment variable that makes this test binary run
// the suite against a broken engine.
const brokenVariable = "BULLPEN_BROKEN_ENGINE"

// faulty is an engine some of whose methods are replaced by faulty ones.
type faulty struct {
	engine.Engine

	put    func(p engine.Put, done func(uint64, error))
	get    func(m engine.Message, err error) (engine.Message, error)
	delete func(s engine.Stream, seq uint64) error
	scan   func(ms []engine.Message) []engine.Message
	take   func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error)
	pause  func(c engine.Consumer, paused bool) error
	close  func() error
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

// fault is a way to be broken, and the clause that must see it.
type fault struct {
	name, clause string
	change       func(o *engine.Options)
	breakIt      func(f *faulty, opened int)
	inject       func() func(Operation) Fault
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

// doer is a taker whose Stop does not wait.
type doer struct {
	engine.Taker

	request func(n int, wait bool)
	stop    func()
}

func (d doer) Request(n int, wait bool) {
	if d.request != nil {
		d.request(n, wait)
		return
	}
	d.Taker.Request(n, wait)
}

func (d doer) Stop() {
	if d.stop != nil {
		d.stop()
		return
	}
	d.Taker.Stop()
}

// everySecond tells true every second time.
func everySecond() func() bool {
	var n atomic.Int64
	return func() bool { return n.Add(1)%2 == 0 }
}

var faults = []fault{
	{name: "calls done twice", clause: "PutDoneOnce", breakIt: func(f *faulty, _ int) {
		f.put = func(p engine.Put, done func(uint64, error)) {
			f.Engine.Put(p, func(seq uint64, err error) { done(seq, err); done(seq, err) })
		}
	}},
	{name: "cuts data off at a line's end", clause: "PutKeepsData", breakIt: puts(func(p *engine.Put) {
		if i := slices.Index(p.Data, '\r'); i > 0 {
			p.Data = p.Data[:i]
		}
	})},
	{name: "ignores New", clause: "PutNew", breakIt: puts(func(p *engine.Put) { p.New = false })},
	{name: "looks and then puts", clause: "PutNewRacing", breakIt: lookThenPut},
	{name: "ignores After", clause: "PutAfter", breakIt: puts(func(p *engine.Put) { p.After = 0 })},
	{name: "finds what is deleted", clause: "Delete", breakIt: func(f *faulty, _ int) {
		f.delete = func(engine.Stream, uint64) error { return nil }
	}},
	{name: "says that a wrong delete fails", clause: "Delete", breakIt: func(f *faulty, _ int) {
		f.delete = func(s engine.Stream, seq uint64) error {
			ms, err := f.Engine.Scan(context.Background(), s, ">", seq, 1)
			if err != nil || len(ms) == 0 || ms[0].Seq != seq {
				return errors.Join(engine.ErrNotFound, err)
			}
			return f.Engine.Delete(context.Background(), s, seq)
		}
	}},
	{name: "forgets the last of a page", clause: "ScanInPages", breakIt: func(f *faulty, _ int) {
		f.scan = func(ms []engine.Message) []engine.Message { return ms[:len(ms)-len(ms)/8] }
	}},
	{name: "gives the newest first", clause: "TakeInOrder", breakIt: func(f *faulty, _ int) { reverse(f) }},
	{name: "swallows what was asked for", clause: "RequestsAddUp", breakIt: func(f *faulty, _ int) {
		skip := everySecond()
		f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
			return f.Engine.Take(c, deliver, func(n int) {
				if !skip() {
					returned(n)
				}
			})
		}
	}},
	{name: "returns too much", clause: "RequestWithoutWait", breakIt: func(f *faulty, _ int) {
		f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
			return f.Engine.Take(c, deliver, func(n int) { returned(n + 1) })
		}
	}},
	{name: "loses acknowledgements", clause: "AckRemoves", breakIt: deliveries(func(d *engine.Delivery) bool {
		d.Receipt = answers{Receipt: d.Receipt, ack: func() {}}
		return true
	})},
	{name: "gives back at once, whatever the delay", clause: "NakWithDelay", breakIt: deliveries(func(d *engine.Delivery) bool {
		r := d.Receipt
		d.Receipt = answers{Receipt: r, nak: func(time.Duration) { r.Nak(0) }}
		return true
	})},
	{name: "never ends a lease", clause: "LeaseEnds", change: func(o *engine.Options) { o.Lease = time.Hour }},
	{name: "ends leases early", clause: "LeaseEnds", change: func(o *engine.Options) { o.Lease /= 2 }},
	{name: "ignores Extend", clause: "ExtendKeepsLease", breakIt: deliveries(func(d *engine.Delivery) bool {
		d.Receipt = answers{Receipt: d.Receipt, extend: func() {}}
		return true
	})},
	{name: "hands out twice", clause: "TwoTakers", breakIt: func(f *faulty, _ int) { handOutTwice(f) }},
	{name: "calls after Stop", clause: "StopEndsCallbacks", breakIt: func(f *faulty, _ int) {
		f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
			taker, err := f.Engine.Take(c, deliver, returned)
			return doer{Taker: taker, stop: func() {}}, err
		}
	}},
	{name: "forgets a pause", clause: "PauseSurvivesReopen", breakIt: func(f *faulty, opened int) {
		if opened > 1 {
			_ = f.Engine.Pause(context.Background(), engine.Consumer{Queue: "mail", Priority: "normal"}, false) // the fault to be seen
		}
	}},
	{name: "ignores a pause", clause: "Pause", breakIt: func(f *faulty, _ int) {
		f.pause = func(engine.Consumer, bool) error { return nil }
	}},
	{name: "hands out before the time", clause: "Schedule", breakIt: puts(func(p *engine.Put) {
		if !p.At.IsZero() {
			p.At = p.At.Add(-200 * time.Millisecond)
		}
	})},
	{name: "forgets outcomes", clause: "BoundOfCountDropsOldest", change: func(o *engine.Options) { o.OutcomeCount-- }},
	{name: "has no bound of bytes", clause: "BoundOfBytesDropsOldest", change: func(o *engine.Options) { o.Dead = 0 }},
	{name: "is never full", clause: "BoundOfJobsRefuses", change: func(o *engine.Options) { o.Jobs = 0 }},
	{name: "ignores TTLs", clause: "StateTTL", breakIt: puts(func(p *engine.Put) { p.TTL = 0 })},
	{name: "ignores ages", clause: "AgeDrops", change: func(o *engine.Options) { o.OutcomeAge = 0 }},
	{name: "takes old for new", clause: "ReopenKeepsAll", breakIt: deliveries(func(d *engine.Delivery) bool { d.Old = false; return true })},
	{name: "does not say again", clause: "ReopenHandsOutAgain", breakIt: deliveries(func(d *engine.Delivery) bool { d.Again = false; return true })},
	{name: "has one namespace", clause: "Namespaces", change: func(o *engine.Options) { o.Namespace = "one" }},
	{name: "goes on after Close", clause: "Closed", breakIt: func(f *faulty, _ int) { f.close = func() error { return nil } }},
	{name: "confirms what it does not store", clause: "Random", inject: func() func(Operation) Fault {
		var n atomic.Int64
		return func(o Operation) Fault {
			if o.Name == "put" && o.Stream == engine.State && n.Add(1)%10 == 0 {
				return Fault{Err: engine.ErrUnknown}
			}
			return Fault{}
		}
	}},
}

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
				d.Receipt.Ack()
				d = *last
			}
			last = &d
			mu.Unlock()
			deliver(d)
		}, returned)
	}
}

// TestBrokenEngine is run by TestSuiteCatches in a process of its own.
func TestBrokenEngine(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if name == "" {
		return // this is not the helper process
	}
	enginetest.Patience = 2 * time.Second
	for _, f := range append(faults, fault{name: "nothing"}) {
		if f.name != name {
			continue
		}
		enginetest.Run(t, enginetest.Factory{
			New: func(*testing.T) engine.Store {
				s := &brokenStore{change: f.change, breakIt: f.breakIt}
				if f.inject != nil {
					s.Inject(f.inject())
				}
				return s
			},
			Lease: 200 * time.Millisecond,
		})
	}
}

// TestSuiteCatches shows that every fault above is seen by the clause that is
// there for it, and that this clause passes when nothing is broken.
func TestSuiteCatches(t *testing.T) {
	t.Parallel()
	var clauses []string
	for _, f := range faults {
		clauses = append(clauses, f.clause)
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, err := runClause(t, f.name, f.clause)
			if err == nil || !strings.Contains(out, "--- FAIL: TestBrokenEngine/"+f.clause) {
				t.Errorf("clause %s lets an engine pass that %s: %v\n%s", f.clause, f.name, err, out)
			}
			if strings.Contains(out, "panic: ") {
				t.Errorf("clause %s falls over an engine that %s:\n%s", f.clause, f.name, out)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		if out, err := runClause(t, "nothing", strings.Join(clauses, "|")); err != nil {
			t.Errorf("the suite fails a sound engine: %v\n%s", err, out)
		}
	})
}

// runClause runs one clause in a process of its own, with a broken engine.
func runClause(t *testing.T, name, clause string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestBrokenEngine$/^("+clause+")$")
	c.Env = append(os.Environ(), brokenVariable+"="+name)
	out, err := c.CombinedOutput()
	return string(out), err
}
