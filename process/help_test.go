//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// open makes a pool that the end of the test closes.
func open(t *testing.T, c Config) *Pool {
	t.Helper()
	if c.CloseGrace == 0 {
		c.CloseGrace = time.Minute // on a busy machine the kernel takes its time to end a process
	}
	p, err := New(quick(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		checkEmpty(t, p)
	})
	return p
}

// quick makes workers with the race detector end at once: they would wait a
// second for reports of other threads.
func quick(c Config) Config {
	c.Env = append(slices.Clone(c.Env), "GORACE=atexit_sleep_ms=0")
	if c.Nice == 0 { // below normal, beside other load, each would take ten times as long
		c.Nice = HostNice
	}
	return c
}

// checkEmpty holds an ended pool against its own books: every accepted task has
// one outcome, and nothing is in hand.
func checkEmpty(t *testing.T, p *Pool) {
	t.Helper()
	s := p.Stats()
	if s.Accepted != s.Total() || s.Queued+s.Blocked+s.InHand != 0 || s.Starting+s.Idle+s.Busy+s.Leaving != 0 {
		t.Errorf("an ended pool has accepted %d tasks and ended %d; %d queued, %d blocked, %d in hand; workers %d starting, %d idle, %d busy, %d leaving",
			s.Accepted, s.Total(), s.Queued, s.Blocked, s.InHand, s.Starting, s.Idle, s.Busy, s.Leaving)
	}
}

// selfPool is a pool whose workers are this test binary.
func selfPool(t *testing.T, change func(*Config)) *Pool {
	t.Helper()
	c := Config{Command: []string{self()}, Max: 1}
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

// zooPool is a pool whose workers misbehave in the way that role names.
func zooPool(t *testing.T, change func(*Config), role ...string) *Pool {
	t.Helper()
	c := Config{Command: append([]string{self(), "zoo"}, role...), Max: 1}
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// do runs one task and fails the test if it does not end well.
func do(t *testing.T, p *Pool, name, payload string) string {
	t.Helper()
	r, err := p.Execute(within(t, 2*time.Minute), bullpen.Task{Name: name, Payload: []byte(payload)})
	if err != nil {
		t.Fatalf("%s %.60q: %v", name, payload, err)
	}
	return string(r.Payload)
}

// wantOutcome fails the test unless err says that the task ended so.
func wantOutcome(t *testing.T, err error, want bullpen.Outcome) *bullpen.TaskError {
	t.Helper()
	var te *bullpen.TaskError
	if !errors.As(err, &te) {
		t.Fatalf("the error is %v, want outcome %v", err, want)
	}
	if te.Outcome != want {
		t.Fatalf("the outcome is %v (%v), want %v", te.Outcome, err, want)
	}
	return te
}

// wantNeverStarted fails the test unless err says that the task never started,
// for the reason given.
func wantNeverStarted(t *testing.T, err, want error) {
	t.Helper()
	if _, started := bullpen.OutcomeOf(err); started || !errors.Is(err, want) {
		t.Fatalf("the error is %v, want a task that never started: %v", err, want)
	}
}

// poll looks until done, without a sleep that hides a missing event: it is for
// what the pool does not tell, such as the state of other processes.
func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// soon wants something within a time that a busy machine may exceed now and then, but
// not three times one after the other.
func soon(t *testing.T, what string, bound time.Duration, measure func() time.Duration) {
	t.Helper()
	var took [3]time.Duration
	for i := range took {
		if took[i] = measure(); took[i] <= bound {
			return
		}
	}
	t.Errorf("%s after %v, want it within %v", what, took, bound)
}

// stateOf is the state of a process as ps shows it; "" when there is none.
func stateOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(1, len(rest))]
}

// alive reports whether a process runs: one that has ended and was not waited for
// does not.
func alive(pid int) bool { s := stateOf(pid); return s != "" && s != "Z" && s != "X" }
