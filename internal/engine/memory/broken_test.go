package memory

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/enginetest"
)

// brokenVariable names the environment variable that makes this test binary run
// the suite against a broken engine.
const brokenVariable = "BULLPEN_BROKEN_ENGINE"

// fault is a way to be broken, and the clause that must see it.
type fault struct {
	name, clause string
	change       func(o *engine.Options)
	breakIt      func(f *faulty, opened int)
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
	{name: "stays where it is", clause: "WalkBothWays", breakIt: func(f *faulty, _ int) {
		f.walk = func(ctx context.Context, s engine.Stream, w engine.Walk, visit func(engine.Message) bool) (uint64, error) {
			next, err := f.Engine.Walk(ctx, s, w, visit)
			if next > 1 && w.Back {
				next--
			}
			return next, err
		}
	}},
	{name: "gives the newest first", clause: "TakeInOrder", breakIt: func(f *faulty, _ int) { reverse(f) }},
	{name: "swallows what was asked for", clause: "RequestsAddUp", breakIt: func(f *faulty, _ int) {
		f.take = func(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
			return f.Engine.Take(c, deliver, func(n int) {
				if n > 1 {
					returned(n - 1)
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
	{name: "stores what ends a job, which stays", clause: "EndStoresAndRemoves", breakIt: func(f *faulty, _ int) {
		deliveries(func(d *engine.Delivery) bool {
			d.Receipt = answers{Receipt: d.Receipt, end: func(puts []engine.Put, done func(error)) {
				engine.EndInSteps(f.Engine, answers{ack: func() {}}, puts, done)
			}}
			return true
		})(f, 1)
	}},
	{name: "ends a job whose end is refused", clause: "EndRefused", breakIt: deliveries(func(d *engine.Delivery) bool {
		r := d.Receipt
		d.Receipt = answers{Receipt: r, end: func(puts []engine.Put, done func(error)) {
			r.End(puts, func(err error) { r.Ack(); done(err) })
		}}
		return true
	})},
	{name: "gives back at once, whatever the delay", clause: "NakWithDelay", breakIt: deliveries(func(d *engine.Delivery) bool {
		r := d.Receipt
		d.Receipt = answers{Receipt: r, nak: func(time.Duration) { r.Nak(0) }}
		return true
	})},
	{name: "hands new ones out first", clause: "RedeliveryFirst", breakIt: deliveries(func(d *engine.Delivery) bool {
		r := d.Receipt
		d.Receipt = answers{Receipt: r, nak: func(time.Duration) { r.Nak(1200 * time.Millisecond) }}
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
	{name: "confirms what it does not keep", clause: "PutKept", breakIt: losing(10)},
	{name: "confirms what it seldom keeps", clause: "Random", breakIt: losing(2)},
	{name: "strands what is given back", clause: "NothingStrands", breakIt: deliveries(func(d *engine.Delivery) bool {
		d.Receipt = answers{Receipt: d.Receipt, nak: func(time.Duration) {}}
		return true
	})},
	{name: "hears nothing of others", clause: "SendAndListen", breakIt: func(f *faulty, opened int) {
		f.deaf = opened > 1
	}},
	{name: "drops what waits when it closes", clause: "CloseAnswersPuts", breakIt: func(f *faulty, _ int) {
		f.put = func(p engine.Put, done func(uint64, error)) {
			time.AfterFunc(100*time.Millisecond, func() { f.Engine.Put(p, done) })
		}
	}},
}

// losing makes every n-th message of State that is confirmed be lost.
func losing(n int64) func(f *faulty, _ int) {
	return func(f *faulty, _ int) {
		var puts atomic.Int64
		f.put = func(p engine.Put, done func(uint64, error)) {
			f.Engine.Put(p, func(seq uint64, err error) {
				if err == nil && p.Stream == engine.State && puts.Add(1)%n == 0 {
					err = f.Engine.Delete(context.Background(), p.Stream, seq)
				}
				done(seq, err)
			})
		}
	}
}

// TestBrokenEngine is run by TestSuiteCatches in a process of its own.
func TestBrokenEngine(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if name == "" {
		return // this is not the helper process
	}
	if name != "nothing" {
		enginetest.Patience = 2 * time.Second // most are broken so that they never answer
	}
	for _, f := range append(faults, fault{name: "nothing"}) {
		if f.name != name {
			continue
		}
		enginetest.Run(t, enginetest.Factory{
			New: func(*testing.T) engine.Store {
				return &brokenStore{Store: Store{Shared: true}, change: f.change, breakIt: f.breakIt}
			},
			Lease: 200 * time.Millisecond, Parallel: true,
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
