package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// open makes a pool and closes it at the end of the test.
func open(t testing.TB, c Config) *Pool {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return p
}

func run(t testing.TB, p *Pool, payload string) string {
	t.Helper()
	r, err := p.Execute(t.Context(), bullpen.Task{Name: "x", Payload: []byte(payload)})
	if err != nil {
		t.Fatalf("%q: %v", payload, err)
	}
	return string(r.Payload)
}

func wantOutcome(t testing.TB, err error, want bullpen.Outcome) *bullpen.TaskError {
	t.Helper()
	var te *bullpen.TaskError
	if !errors.As(err, &te) || te.Outcome != want {
		t.Fatalf("the task ended with %v, want %v", err, want)
	}
	return te
}

func TestReactorPassesThePayload(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Fresh, Restore, Stateless} {
		p := open(t, Config{Code: echo().build(), Mode: mode})
		for _, payload := range []string{"", "x", strings.Repeat("payload ", 1000), "y"} {
			if got := run(t, p, payload); got != payload {
				t.Errorf("%v: %d bytes came back as %d", mode, len(payload), len(got))
			}
		}
		if s := p.Stats(); s.ABI != Reactor || s.Mode != mode || s.Outcomes[bullpen.OK] != 4 {
			t.Errorf("%v: the statistics are %+v", mode, s)
		}
	}
}

func TestWhatIsLeftBetweenTasks(t *testing.T) {
	t.Parallel()
	for mode, want := range map[Mode]string{Fresh: "\x01\x01", Restore: "\x01\x01", Stateless: "\x03\x03"} {
		p := open(t, Config{Code: counts().build(), Mode: mode, Max: 1})
		var got string
		for range 3 {
			got = run(t, p, "")
		}
		if got != want {
			t.Errorf("%v: the third task found %q, want %q", mode, got, want)
		}
		s := p.Stats()
		if kept := s.Instantiated == 2; kept != (mode != Fresh) { // one of them to try the module
			t.Errorf("%v: %d instances for three tasks", mode, s.Instantiated)
		}
		if restored := s.Restored == 3; restored != (mode == Restore) {
			t.Errorf("%v: restored %d times", mode, s.Restored)
		}
	}
}

func TestEveryGuestIsStopped(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Code: spin().build(), Max: 2})
	_, err := p.Execute(t.Context(), bullpen.Task{Name: "x", Limits: bullpen.Limits{Timeout: 20 * time.Millisecond}})
	if te := wantOutcome(t, err, bullpen.Timeout); !errors.Is(te, context.DeadlineExceeded) || !strings.Contains(te.Message, "20ms") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer needed")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	_, err = p.Execute(ctx, bullpen.Task{Name: "x"})
	if te := wantOutcome(t, err, bullpen.Canceled); !errors.Is(te, why) || !errors.Is(te, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	due, cancel2 := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel2()
	_, err = p.Execute(due, bullpen.Task{Name: "x"})
	_ = wantOutcome(t, err, bullpen.Timeout)
}

func TestCloseStopsGuests(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Code: spin().build(), Max: 1})
	ended := make(chan error, 2)
	for range 2 {
		if err := p.Submit(t.Context(), bullpen.Task{Name: "x"}, func(_ bullpen.Result, err error) { ended <- err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	var started int
	for range 2 {
		err := <-ended
		if !errors.Is(err, bullpen.ErrClosed) {
			t.Errorf("a task of a closed pool ended with %v", err)
		}
		if o, ran := bullpen.OutcomeOf(err); ran && o == bullpen.Canceled {
			started++
		}
	}
	if started != 1 || p.State() != Closed {
		t.Errorf("%d tasks were canceled, want 1; the state is %v", started, p.State())
	}
}

func TestHowGuestsDie(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		module  *builder
		outcome bullpen.Outcome
		message string
	}{
		{"trap", trap(), bullpen.Crashed, "unreachable"},
		{"recursion", recurse(), bullpen.Crashed, "stack overflow"},
		{"memory", hog(), bullpen.Memory, "more than its limit of 4096 KiB"},
		{"a result outside", reactor(0, packed(num(1<<17-1), num(2))), bullpen.Protocol, "leads out of the memory"},
		{"an enormous result", reactor(0, packed(num(-1), num(-1))), bullpen.Output, ""},
		{"a result outside, near the end of 32 bits", reactor(0, packed(num(-2), num(16))), bullpen.Protocol, "leads out of the memory"},
	} {
		for _, mode := range []Mode{Fresh, Restore, Stateless} {
			p := open(t, Config{Code: c.module.build(), Mode: mode, Limits: bullpen.Limits{Memory: 4 << 20, Timeout: time.Minute}})
			for range 3 {
				_, err := p.Execute(t.Context(), bullpen.Task{Name: "x", ID: "7", Payload: []byte("payload")})
				te := wantOutcome(t, err, c.outcome)
				if !strings.Contains(te.Message, c.message) || te.ID != "7" || te.Task != "x" || te.ExitCode != -1 {
					t.Errorf("%s: %#v", c.what, te)
				}
				if c.what == "trap" && !strings.Contains(te.Stack, "bullpen_run") && !strings.Contains(te.Stack, "$1") {
					t.Errorf("the stack is %q", te.Stack)
				}
			}
		}
	}
}

// TestBlockedCallersGetTheirOwnResults has many more callers than places in the queue.
func TestBlockedCallersGetTheirOwnResults(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Code: echo().build(), Mode: Stateless, Max: 1, Queue: 1})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() { // ends after its tasks; the test waits for it
			for n := range 300 {
				k := bullpen.Task{Name: "x", Payload: fmt.Appendf(nil, "%d of %d", n, g)}
				check := func(r bullpen.Result, err error) {
					if err != nil || !bytes.Equal(r.Payload, k.Payload) {
						t.Errorf("%q gave %q, %v", k.Payload, r.Payload, err)
					}
				}
				if n%2 == 0 {
					check(p.Execute(t.Context(), k))
					continue
				}
				all.Add(1)
				if err := p.Submit(context.Background(), k, func(r bullpen.Result, err error) { check(r, err); all.Done() }); err != nil {
					t.Error(err)
					all.Done()
				}
			}
		})
	}
	all.Wait()
}

func TestEventsAndStats(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Name: "guests", Code: trap().build(), Max: 1})
	feed := p.Events(0)
	_, err := p.Execute(t.Context(), bullpen.Task{Name: "x"})
	_ = wantOutcome(t, err, bullpen.Crashed)
	if e := <-feed.C; e.Kind != Trapped || e.Instance != "guests-1" || e.Task != "x" || !strings.Contains(e.String(), "unreachable") {
		t.Errorf("the event is %v", e)
	}
	s := p.Stats()
	if s.Name != "guests" || s.Outcomes[bullpen.Crashed] != 1 || s.Discarded != 2 || s.Run.Count != 1 || s.Idle != 1 || s.Max != 1 {
		t.Errorf("the statistics are %+v", s)
	}
	if err := p.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for e := range feed.C {
		if e.Kind != Changed {
			t.Errorf("at the end there is the event %v", e)
		}
	}
}

func TestLimitOfOneTask(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Code: echo().build(), Mode: Stateless, Max: 1})
	k := bullpen.Task{Name: "x", Payload: bytes.Repeat([]byte("x"), 100)}
	k.Limits.Output = 99
	_, err := p.Execute(t.Context(), k)
	_ = wantOutcome(t, err, bullpen.Output)
	k.Limits = bullpen.Limits{Memory: page}
	if _, err := p.Execute(t.Context(), k); !errors.Is(err, bullpen.ErrRefused) {
		t.Errorf("a limit below the size of an instance: %v", err)
	}
	k.Limits = bullpen.Limits{CPU: 1}
	if _, err := p.Execute(t.Context(), k); !errors.Is(err, bullpen.ErrRefused) {
		t.Errorf("a limit of the processor: %v", err)
	}
	k.Limits = bullpen.Limits{Memory: 2 * page}
	if _, err := p.Execute(t.Context(), k); err != nil {
		t.Error(err)
	}
}

func TestConfigFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Min: 3, Max: 2, Mode: 9, Env: []string{"NAME"}, Mounts: []Mount{{}}, Limits: bullpen.Limits{CPU: 1}})
	if err == nil {
		t.Fatal("an invalid configuration was accepted")
	}
	for _, part := range []string{"Code", "Mode is 9", "Min is 3", `"NAME"`, "no Host", "limit CPU"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s: %v", part, err)
		}
	}
}

func TestModulesThatAreRefused(t *testing.T) {
	t.Parallel()
	with := func(i imported) []byte {
		b := echo()
		b.imports = append(b.imports, i)
		return b.build()
	}
	command := (&builder{pages: 1, funcs: []function{{export: "_start"}}}).build()
	for _, c := range []struct {
		what string
		c    Config
		want []string
	}{
		{"a component", Config{Code: []byte("\x00asm\x0d\x00\x01\x00")}, []string{"component", "wasip1"}},
		{"text", Config{Code: []byte("(module)")}, []string{"wat2wasm"}},
		{"no module", Config{Code: []byte("#!/bin/sh")}, []string{"not a WebAssembly module"}},
		{"an unknown import", Config{Code: with(imported{module: "env", name: "emscripten_memcpy"})}, []string{"emscripten_memcpy", "WASI"}},
		{"another WASI", Config{Code: with(imported{module: "wasi_unstable", name: "fd_write"})}, []string{"fd_write", "wasi_snapshot_preview1"}},
		{"HTTP of Extism", Config{Code: with(imported{module: extismModule, name: "http_request"})}, []string{"http_request", "no network"}},
		{"an import of another type", Config{Code: with(imported{module: bullpenModule, name: "log"})}, []string{"log"}},
		{"nothing to call", Config{Code: (&builder{}).build()}, []string{"_start", "bullpen_run", "Extism"}},
		{"a kept command", Config{Code: command, Mode: Restore}, []string{"restore", "fresh"}},
		{"no bullpen_alloc", Config{Code: (&builder{pages: 1, funcs: []function{{export: "bullpen_run"}}}).build()}, []string{"bullpen_alloc", "bullpen_run has the wrong type"}},
		{"too small a limit", Config{Code: echo().build(), Limits: bullpen.Limits{Memory: page}}, []string{"128 KiB"}},
		{"an invalid body", Config{Code: reactor(0, opDrop).build()}, nil},
	} {
		p, err := New(c.c)
		if err == nil {
			t.Errorf("%s was accepted: %v", c.what, p.Close())
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error does not mention %q: %v", c.what, part, err)
			}
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	if err := errors.Join(poolStates.Check(), taskStates.Check()); err != nil {
		t.Error(err)
	}
}
