package jet

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/broker"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// unsure is a disk that does not know for sure what was handed out.
type unsure struct{ engine.Disk }

func (unsure) Marked(engine.Consumer) (uint64, bool) { return 0, false }

// session opens an engine on a folder, does something, and closes both in order.
func session(t *testing.T, dir string, sure bool, do func(e *Engine)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b, err := broker.Open(ctx, broker.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect("", nats.InProcessServer(b.Server()))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Conn: conn, Owned: true, Disk: b, Options: engine.Options{Namespace: "marks"}}
	if !sure {
		c.Disk = unsure{b}
	}
	e, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	do(e)
	if err := e.Close(ctx); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := b.Close(ctx); err != nil {
		t.Errorf("Close of the server = %v", err)
	}
}

// TestMarkUnsure has an engine that is not sure what was handed out take from a
// consumer, of which nothing comes, and close in order: the next one is told that
// what was there may have been handed out.
func TestMarkUnsure(t *testing.T) {
	const jobs = 3
	for _, want := range []struct {
		name string
		sure bool
	}{{"sure", true}, {"unsure", false}} {
		t.Run(want.name, func(t *testing.T) {
			dir := t.TempDir()
			session(t, dir, true, func(e *Engine) {
				var all sync.WaitGroup
				all.Add(jobs)
				for i := range jobs {
					e.Put(engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(mail, jobID(uint64(i)))}, func(_ uint64, err error) {
						if err != nil {
							t.Error(err)
						}
						all.Done()
					})
				}
				all.Wait()
			})
			session(t, dir, want.sure, func(e *Engine) {
				if _, err := e.Take(mail, func(engine.Delivery) {}, func(int) {}); err != nil {
					t.Errorf("Take = %v", err)
				}
			})
			session(t, dir, true, func(e *Engine) {
				came := make(chan engine.Delivery, jobs)
				taker, err := e.Take(mail, func(d engine.Delivery) { came <- d }, func(int) {})
				if err != nil {
					t.Fatal(err)
				}
				taker.Request(jobs, true)
				for range jobs {
					if d := <-came; d.Again == want.sure || d.Orphan == want.sure {
						t.Errorf("%s: Again %v, Orphan %v, want %v", d.Subject, d.Again, d.Orphan, !want.sure)
					}
				}
			})
		})
	}
}
