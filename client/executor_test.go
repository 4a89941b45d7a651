package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/pool"
)

// words keeps what a task says of itself.
type words struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (o *words) Progress(fraction float64, note string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprint(fraction, " ", note))
}

func (o *words) Log(l bullpen.LogLine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, l.Stream+" "+l.Text)
}

func TestObserver(t *testing.T) {
	t.Parallel()
	talk := func(_ context.Context, t bullpen.Task) ([]byte, error) {
		t.Observer.Progress(0.5, "half")
		t.Observer.Log(bullpen.LogLine{Stream: "stdout", Text: "line"})
		if string(t.Payload) == "fail" {
			return nil, bullpen.Fail("no", false)
		}
		return t.Payload, nil
	}
	for _, durable := range []bool{false, true} {
		workers, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{"talk": talk}})
		if err != nil {
			t.Fatal(err)
		}
		_, at := serve(t, workers, nil)
		e, err := connect(t, client.Config{URL: at}).Executor("p", client.ExecutorConfig{Durable: durable})
		if err != nil {
			t.Fatal(err)
		}
		for _, payload := range []string{"\x00\xff", "fail"} {
			o := &words{}
			r, err := e.Execute(t.Context(), bullpen.Task{ID: "7", Name: "talk", Payload: []byte(payload), Observer: o})
			var te *bullpen.TaskError
			if payload != "fail" && (err != nil || string(r.Payload) != payload) {
				t.Errorf("durable %v: Execute() = %q, %v", durable, r.Payload, err)
			} else if payload == "fail" && (!errors.As(err, &te) || te.Message != "no" || te.ID != "7") {
				t.Errorf("durable %v: Execute() = %v", durable, err)
			}
			if d := cmp.Diff([]string{"0.5 half", "stdout line"}, o.all); d != "" {
				t.Errorf("durable %v: the observer received (-want +got):\n%s", durable, d)
			}
		}
		_, err = e.Execute(t.Context(), bullpen.Task{Name: "nobody", Observer: &words{}})
		if !errors.Is(err, bullpen.ErrUnknownTask) {
			t.Errorf("durable %v: an unknown task with an observer gives %v", durable, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDaemonWithoutRoom says what becomes of tasks that the daemon has no room for,
// by the rule of the executor.
func TestDaemonWithoutRoom(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, overflow client.Overflow, cause string, status, times int) (int64, error) {
		t.Helper()
		var asked atomic.Int64
		var err error
		bubble(t, client.Config{Retries: 3}, func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) <= int64(times) {
				w.Header().Set("Retry-After", "1")
				answerProblem(w, status, cause, "")
			}
		}, func(t *testing.T, c *client.Client) {
			t.Helper()
			e, made := c.Executor("p", client.ExecutorConfig{Overflow: overflow})
			if made != nil {
				t.Fatal(made)
			}
			_, err = e.Execute(t.Context(), bullpen.Task{Name: "x"})
			if closed := e.Close(); closed != nil {
				t.Error(closed)
			}
		})
		return asked.Load(), err
	}
	for _, c := range []struct {
		overflow client.Overflow
		cause    string
		status   int
		times    int
		asked    int64
		want     error
	}{
		{client.Block, "overloaded", 429, 20, 21, nil},
		{client.DropOldest, "rate", 429, 20, 21, nil},
		{client.Reject, "overloaded", 429, 20, 1, bullpen.ErrOverloaded},
		{client.Block, "closed", 503, 3, 4, nil},
		{client.Block, "closed", 503, 20, 4, bullpen.ErrStart},
		{client.Block, "start-failed", 503, 20, 4, bullpen.ErrStart},
		{client.Block, "forbidden", 403, 20, 1, bullpen.ErrRefused},
		{client.Block, "nested", 409, 20, 1, client.ErrNested},
	} {
		asked, err := run(t, c.overflow, c.cause, c.status, c.times)
		_, started := bullpen.OutcomeOf(err)
		switch {
		case asked != c.asked:
			t.Errorf("%+v: the daemon was asked %d times", c, asked)
		case c.want == nil && err != nil, c.want != nil && (started || !errors.Is(err, c.want)):
			t.Errorf("%+v gives %v", c, err)
		case errors.Is(err, bullpen.ErrClosed):
			t.Errorf("%+v gives %v, which says that the executor is closed", c, err)
		}
	}
}

// TestStopEndsTries: what waits for a daemon without room has not started.
func TestStopEndsTries(t *testing.T) {
	t.Parallel()
	bubble(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		answerProblem(w, 429, "overloaded", "")
	}, func(t *testing.T, c *client.Client) {
		t.Helper()
		e, err := c.Executor("p", client.ExecutorConfig{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := bullpen.Start(t.Context(), e, bullpen.Task{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { _ = e.Stop(context.Background()) }) // its end is seen by the task's
		if _, err := h.Result(); !errors.Is(err, bullpen.ErrClosed) || time.Since(begun) != time.Minute {
			t.Errorf("the task ends with %v after %v, want ErrClosed at once", err, time.Since(begun))
		}
		if err := e.Close(); err != nil || e.State() != "closed" {
			t.Errorf("Close() = %v, state %s", err, e.State())
		}
	})
}

// TestUncertainAnswers: the task may have run, so it is lost.
func TestUncertainAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"a broken connection":  func(w http.ResponseWriter, _ *http.Request) { hijack(w) },
		"a fault":              func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 500, "internal", "") },
		"a proxy's own answer": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"half a result": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "half")
			_ = http.NewResponseController(w).Flush()
		},
	} {
		c := scripted(t, client.Config{}, answer)
		for _, o := range []bullpen.Observer{nil, &words{}} {
			_, err := c.RunEphemeral(t.Context(), "p", bullpen.Task{ID: "7", Name: "x", Observer: o})
			var te *bullpen.TaskError
			if !errors.As(err, &te) || te.Outcome != bullpen.Lost || te.ID != "7" || te.Task != "x" || !te.Retryable {
				t.Errorf("%s gives %v, want outcome lost", name, err)
			}
		}
	}
	c := scripted(t, client.Config{MaxResult: 3}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "more") })
	_, err := c.RunEphemeral(t.Context(), "p", bullpen.Task{})
	if o, _ := bullpen.OutcomeOf(err); o != bullpen.Output || !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("a result beyond MaxResult gives %v, want outcome output", err)
	}
}

// TestCloseNamesWhatIsStuck closes an executor whose daemon does not end a task.
func TestCloseNamesWhatIsStuck(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	bubble(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			if asked.Add(1) < 3 {
				answerProblem(w, 404, "not-found", "") // it has not arrived yet
			}
			return
		}
		<-r.Context().Done()
	}, func(t *testing.T, c *client.Client) {
		t.Helper()
		e, err := c.Executor("p", client.ExecutorConfig{CloseGrace: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		h, err := bullpen.Start(t.Context(), e, bullpen.Task{ID: "my-id", Name: "stuck"})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.Wait(expired(t)) // so that it is at the daemon
		begun := time.Now()
		err = e.Close()
		if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), `"stuck" my-id`) || took != 3*time.Second {
			t.Errorf("Close() = %v after %v, want an error that names the task after the grace", err, took)
		}
		if _, err := h.Result(); err == nil || !strings.Contains(err.Error(), "was closed") {
			t.Errorf("the task ends with %v", err)
		} else if o, _ := bullpen.OutcomeOf(err); o != bullpen.Lost {
			t.Errorf("the task ends with %v, want it lost", err)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("the daemon was asked to end the task %d times, want until it knows the task, 3", n)
		}
	})
}

// expired is a context that ends after a second.
func expired(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestTaskTravels holds an ephemeral request against the API.
func TestTaskTravels(t *testing.T) {
	t.Parallel()
	var got asked
	c := scripted(t, client.Config{}, func(_ http.ResponseWriter, r *http.Request) { got = note(r) })
	e, err := c.Executor("p", client.ExecutorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(client.WithParent(t.Context(), bullpen.Task{ID: "01P"}), end)
	defer cancel()
	_, err = e.Execute(ctx, bullpen.Task{
		ID: "job_7", Name: "t", Payload: []byte("x"), Meta: map[string]string{"k": "\xff", "bullpen.attempt": "2"},
		Limits: bullpen.Limits{Timeout: time.Second, Memory: 5, CPU: 0.25, Output: 6},
	})
	if err != nil {
		t.Fatal(err)
	}
	line, id, _ := strings.Cut(got.Line, "&id=")
	want := "POST /v1/pools/p/run?task=t&deadline=" + strings.ReplaceAll(end.UTC().Format(time.RFC3339Nano), ":", "%3A") + "&timeout=1s&memory=5&cpu=0.25&output=6"
	if line != want || !strings.HasSuffix(id, "-job_7") || len(id) > 64 {
		t.Errorf("asked for %s, want %s", got.Line, want)
	}
	if d := cmp.Diff(http.Header{"Bullpen-Meta": {"k=%FF"}, "Bullpen-Parent": {"01P"}}, got.Header); d != "" {
		t.Error(d)
	}
	if g := e.Guarantees(); g.Exact || len(g.Notes) == 0 {
		t.Errorf("Guarantees() = %+v, want no Exact, and why", g)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCutBetweenTries cuts a durable task that is being asked for again and again:
// that it was cut is what is said, not what the last try has seen.
func TestCutBetweenTries(t *testing.T) {
	t.Parallel()
	bubble(t, client.Config{Retries: 40}, func(w http.ResponseWriter, _ *http.Request) { hijack(w) }, func(t *testing.T, c *client.Client) {
		t.Helper()
		e, err := c.Executor("p", client.ExecutorConfig{Durable: true, CloseGrace: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = e.Execute(expired(t), bullpen.Task{Name: "x"})
		if o, _ := bullpen.OutcomeOf(err); o != bullpen.Lost || !strings.Contains(err.Error(), "was closed") {
			t.Errorf("the task ends with %v, want it lost because its connection was closed", err)
		}
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("it took %v, want the grace after the end of its context", took)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
