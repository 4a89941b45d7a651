package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/level"
	gopool "github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/process"
)

// goroutines is a level without processes: handlers of this program in a goroutine pool.
type goroutines struct {
	*gopool.Pool

	program string
}

func newGoroutines(c process.Config) (level.Pool, error) {
	word := strings.Join(c.Command[1:], " ")
	p, err := gopool.New(gopool.Config{Name: c.Name, Min: c.Min, Max: c.Max, Overflow: gopool.Reject, Handlers: map[string]bullpen.Handler{
		"upper": func(_ context.Context, t bullpen.Task) ([]byte, error) { return bytes.ToUpper(t.Payload), nil },
		"tell":  func(context.Context, bullpen.Task) ([]byte, error) { return []byte(word), nil },
		"fail":  func(context.Context, bullpen.Task) ([]byte, error) { return nil, errors.New("no") },
	}})
	if err != nil {
		return nil, err
	}
	return &goroutines{p, c.Command[0]}, nil
}

func (g *goroutines) Config() level.Config {
	s := g.Pool.Stats()
	return level.Config{Program: g.program, Min: s.Min, Max: s.Max, StartTimeout: time.Second}
}

func (g *goroutines) Stats() level.Stats {
	s := g.Pool.Stats()
	return level.Stats{
		State: s.State.String(), Idle: s.Idle, Busy: s.Busy, Queued: s.Queued, InHand: s.Busy,
		Accepted: s.Accepted, NeverStarted: s.NeverStarted, Refused: s.Refused, Outcomes: s.Outcomes,
	}
}

func (g *goroutines) Events(buffer int) iter.Seq[level.Event] {
	feed := g.Pool.Events(buffer)
	return func(func(level.Event) bool) {
		for e := range feed.C {
			_ = e // none means anything here
		}
	}
}

func (g *goroutines) Ready(context.Context, int) error { return nil }
func (g *goroutines) Reload(context.Context) error     { return nil }
func (g *goroutines) Workers() []level.Worker          { return nil }
func (g *goroutines) Recycle(worker string) error {
	return fmt.Errorf("%w: %s", level.ErrNoWorker, worker)
}

// TestOtherLevel has the daemon run tasks at a level without processes: all of the API
// works, and what only processes have is absent.
func TestOtherLevel(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.workers = newGoroutines
	mine := func(word string) string {
		return fmt.Sprintf("  p: {command: [%q, %s], task: tell, ephemeral: true, workers: {max: 2}}\n", self(t), word)
	}
	n.write(mine("old"))
	n.open().begin()
	n.awaitReady()
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/v1/pools/p/jobs?task=upper&wait=1m", "abc", "ABC", http.StatusOK},
		{"/v1/pools/p/run?task=upper", "abc", "ABC", http.StatusOK},
		{"/v1/pools/p/run", "", "old", http.StatusOK},
		{"/v1/pools/p/run?task=fail", "", "no", http.StatusUnprocessableEntity},
		{"/v1/pools/p/jobs?task=nobody", "", "unknown task", http.StatusUnprocessableEntity},
		{"/v1/pools/p/scale", `{"max":3}`, `"max":3`, http.StatusOK},
		{"/v1/pools/p/reload", "", `"program":`, http.StatusOK},
		{"/v1/workers/p-1/recycle?pool=p", "", "no such worker", http.StatusNotFound},
	} {
		if a := n.want(c.status, http.MethodPost, c.path, c.body); !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %s, want %s", c.path, a.body, c.want)
		}
	}
	if a := n.want(http.StatusOK, http.MethodGet, "/v1/pools/p", ""); strings.Contains(a.body, "protocol") || !strings.Contains(a.body, `"state":"open"`) {
		t.Errorf("the pool is %s", a.body)
	}
	if a := n.want(http.StatusOK, http.MethodGet, "/v1/workers", ""); a.body != "{\"workers\":[]}\n" {
		t.Errorf("the workers are %q", a.body)
	}
	if a := n.want(http.StatusOK, http.MethodGet, "/metrics", ""); strings.Contains(a.body, `bullpen_process_state{pool="p"`) || !strings.Contains(a.body, `bullpen_queue_wait_seconds_count{queue="p"} 1`) {
		t.Errorf("the metrics of a level without processes:\n%s", a.body)
	}
	n.write(mine("new"))
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/p/run", ""); a.body != "new" {
		t.Errorf("after a reload: %q", a.body)
	}
}
