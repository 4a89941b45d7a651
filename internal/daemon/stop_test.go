package daemon

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// asked is a request under way.
type asked struct {
	n    *node
	done chan struct{} // closed when it has its answer
	got  answer        // written before done is closed
	err  error
}

// background sends a request and does not wait.
func (n *node) background(path, body string) *asked {
	a := &asked{n: n, done: make(chan struct{})}
	go func() { // ends with the answer, at the latest when the daemon ends; wait waits for it
		defer close(a.done)
		a.got, a.err = n.send(n.t.Context(), http.MethodPost, path, body)
	}()
	return a
}

func (a *asked) wait() answer {
	a.n.t.Helper()
	<-a.done
	if a.err != nil {
		a.n.t.Fatal(a.err)
	}
	return a.got
}

func cause(t *testing.T, a answer) string {
	t.Helper()
	var p struct{ Cause string }
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
	return p.Cause
}

// TestStop shows in which order a daemon ends: nothing more is accepted, who
// waits is answered, what runs ends.
func TestStop(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	flag := filepath.Join(t.TempDir(), "go")
	running := n.background("/v1/pools/one/jobs?task=hold&wait=1m", flag)
	eventually(t, "the first job runs", func() bool { return exists(flag + ".begun") })
	waiting := n.background("/v1/pools/one/jobs?wait=1m", "second")
	ephemeral := n.background("/v1/pools/one/run", "third")
	eventually(t, "the others wait", func() bool {
		a := n.ask(http.MethodGet, "/v1/pools/one", "")
		return strings.Contains(a.body, `"queued":1`) && strings.Contains(a.body, `"waiting":1`)
	})
	n.Stop()
	eventually(t, "it is not ready", func() bool { return n.ask(http.MethodGet, "/readyz", "").status == http.StatusServiceUnavailable })
	n.want(http.StatusOK, http.MethodGet, "/livez", "")
	for _, path := range []string{"/v1/pools/one/jobs", "/v1/pools/one/run"} {
		a := n.want(http.StatusServiceUnavailable, http.MethodPost, path, "late")
		if cause(t, a) != "closed" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s while it stops: %s, Retry-After %q", path, a.body, a.header.Get("Retry-After"))
		}
	}
	if a := ephemeral.wait(); a.status != http.StatusServiceUnavailable || cause(t, a) != "closed" {
		t.Errorf("an ephemeral task that had not started: %d %s", a.status, a.body)
	}
	touch(t, flag)
	if a := running.wait(); a.status != http.StatusOK || a.body != "held" {
		t.Errorf("the job that ran: %d %s", a.status, a.body)
	}
	if a := waiting.wait(); a.status != http.StatusAccepted || !strings.Contains(a.body, `"id"`) {
		t.Errorf("the job that had not started: %d %s, want 202", a.status, a.body)
	}
	if err := n.wait(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if s := n.state.State(); s != Closed {
		t.Errorf("state %v", s)
	}
}

// TestAbort shows that Close cuts off what runs, which is no fault of the job.
func TestAbort(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	flag := filepath.Join(t.TempDir(), "never")
	running := n.background("/v1/pools/one/jobs?task=hold&wait=1m", flag)
	eventually(t, "the job runs", func() bool { return exists(flag + ".begun") })
	n.Stop()
	n.Close()
	if err := n.wait(); !errors.Is(err, ErrAborted) {
		t.Errorf("Run = %v, want ErrAborted", err)
	}
	<-running.done // answered or cut off
	if running.err == nil && running.got.status != http.StatusAccepted {
		t.Errorf("the job that was cut off: %d %s, want 202", running.got.status, running.got.body)
	}
}

func TestEndBeforeRun(t *testing.T) {
	t.Parallel()
	n := open(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	n.Close()
	if err := n.Run(t.Context()); !errors.Is(err, ErrAborted) {
		t.Errorf("Run after Close = %v, want ErrAborted", err)
	}
	n = open(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	n.Stop()
	if err := n.Run(t.Context()); err != nil {
		t.Errorf("Run after Stop = %v", err)
	}
}

// TestActorThatDies shows that the failure of one part ends all, in order.
func TestActorThatDies(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	if err := n.front.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.wait(); err == nil || !strings.Contains(err.Error(), "the API") {
		t.Errorf("Run = %v, want what the API died of", err)
	}
	if log := n.journal.String(); !strings.Contains(log, `part="the API"`) {
		t.Error("the log does not say which part has ended the daemon")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	n := start(t)
	for name, c := range map[string]struct {
		text string
		open bool
		says string
	}{
		"address in use": {"http: {listen: '" + n.Addr().String() + "'}\nqueue: {memory: true}", true, "another bullpen serve: end it, or set another address (http.listen, or --listen)"},
		"probes in use":  {base + "probes: {listen: '" + n.Addr().String() + "'}", true, "set another address (probes.listen)"},
		"no folder":      {"http: {listen: '127.0.0.1:0'}\nqueue: {dir: /dev/null/no}", true, "queue"},
		"no room":        {base + "budget: {workers: 1}\npools:\n  one: {command: [cat], protocol: lines, workers: {min: 2, max: 2}}\n  two: {command: [cat], protocol: lines, workers: {min: 2, max: 2}}", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := settings.Load(settings.Source{Path: filepath.Join(t.TempDir(), "bullpen.yaml"), Text: []byte(c.text)})
			if err != nil {
				if c.open {
					t.Fatal(err)
				}
				return // found sooner
			}
			d, err := New(t.Context(), Config{Settings: s})
			if err == nil {
				d.abandon()
				t.Fatal("New succeeded")
			}
			var open *OpenError
			if errors.As(err, &open) != c.open {
				t.Errorf("New = %v; an OpenError: %v, want %v", err, !c.open, c.open)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("New = %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	if err := states.Check(); err != nil {
		t.Error(err)
	}
}
