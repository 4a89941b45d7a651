//go:build unix

package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
)

// TestHTTPBroken: a server that closes the connection without an answer has not answered,
// and goes on.
func TestHTTPBroken(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.Grace = 10 * time.Millisecond; c.Limits.Output = 1999 })
	before := do(t, p, "pid", "")
	_, err := p.Execute(t.Context(), bullpen.Task{Name: "hang-up"})
	_ = wantOutcome(t, err, bullpen.Protocol)
	_, err = p.Execute(t.Context(), bullpen.Task{Name: "big"})
	_ = wantOutcome(t, err, bullpen.Output)
	if after := do(t, p, "pid", ""); after != before {
		t.Errorf("another worker: %s, before %s", after, before)
	}
}

// TestHTTPKilled: a worker that was killed closes its connections before its end is known,
// which decides the outcome however late it comes.
func TestHTTPKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &worker{pool: &Pool{config: &resolved{Config: Config{Grace: time.Millisecond}}}, killed: true}
		d := driveHTTP(w).(*httpDriver)
		defer d.abandon()
		answers := make(chan *wire.Message, 1)
		died := false
		go func() { answers <- d.broken(d.posts, errUnread, func() { died = true }) }()
		select {
		case m := <-answers:
			t.Errorf("answered with %q before the end of the worker", m.Body)
		case <-time.After(time.Minute):
			d.end()
			if m := <-answers; m != nil || !died {
				t.Errorf("after the end of the worker: %v, %v", m, died)
			}
		}
	})
}

// TestHTTPCancelOfAnAnswer: a task may be canceled when its request has ended, but its answer
// is not accounted for yet.
func TestHTTPCancelOfAnAnswer(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.Min = 1 })
	if err := p.Ready(within(t, time.Minute), 1); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[0]
	w.count = 2
	if !w.driver.cancel(&call{number: 99, cause: errWhy}) {
		t.Error("the worker is to be killed")
	}
	w.count = 0
}
