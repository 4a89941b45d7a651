//go:build unix

package process

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// A dead worker is never a result, and says how it died.
func TestDeathInMidTask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, how, signal string
		exit              int
	}{
		{"terminated", "kill -TERM $$", "terminated", -1},
		{"killed", "kill -KILL $$", "killed", -1},
		{"segmentation fault", "kill -SEGV $$", "segmentation fault", -1},
		{"aborted", "kill -ABRT $$", "aborted", -1},
		{"another signal", "kill -USR1 $$", "user defined signal 1", -1}, // SIGHUP is ignored below nohup
		{"exit 0", "exit 0", "", 0},
		{"exit 3", "exit 3", "", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// One task in hand: those behind it in the same worker have tests of their own.
			// The worker closes its end when it becomes a shell, and dies later: the grace
			// between the two is long, for a busy machine.
			p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Window, c.Grace = 2, 2, 1, 20*time.Second })
			soon(t, "the caller learns of the death", 20*5*ms, func() time.Duration {
				awaitReady(t, p, 2)
				var others sync.WaitGroup
				defer others.Wait()
				others.Go(func() { do(t, p, "sleep", "200ms") }) // a neighbour
				others.Go(func() {                               // more behind both
					doAll(t, p, batchOf(10, "echo", "queued"))
				})
				_, err := p.Execute(within(t, time.Minute), bullpen.Task{
					Name: "become", ID: "doomed", Payload: []byte("echo last words >&2; date +%s%N >&2; " + c.how),
				})
				returned := time.Now()
				te := wantOutcome(t, err, bullpen.Crashed)
				if te.Signal != c.signal || te.ExitCode != c.exit || te.Worker == "" || te.ID != "doomed" || te.Task != "become" {
					t.Errorf("the error is %+v, want signal %q and exit code %d", te, c.signal, c.exit)
				}
				words, stamp, _ := strings.Cut(te.Detail, "\n")
				ns, err := strconv.ParseInt(strings.TrimSpace(stamp), 10, 64)
				if words != "last words" || err != nil {
					t.Fatalf("the last lines of stderr are %q: %v", te.Detail, err)
				}
				return returned.Sub(time.Unix(0, ns))
			})
			do(t, p, "echo", "after")
		})
	}
}

// Whatever a worker says, the host lives and the caller gets an error.
func TestBadWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role string
		want bullpen.Outcome
		exit int
		text string // in the error
	}{
		{"half-frame", bullpen.Crashed, 9, "status 9"},
		{"half-header", bullpen.Crashed, -1, "killed"},
		{"wrong-id", bullpen.Protocol, -1, "does not have"},
		{"unknown-kind", bullpen.Protocol, -1, "kind"},
		{"text", bullpen.Protocol, -1, ""},
		{"huge", bullpen.Protocol, -1, ""},
		{"bad-outcome", bullpen.Protocol, -1, ""},
		{"bad-pairs", bullpen.Protocol, -1, ""},
		{"closes-output", bullpen.Protocol, -1, "closed its end"},
		{"arena-unannounced", bullpen.Protocol, -1, "ARENA"},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			j := newJournal()
			p := zooPool(t, func(c *Config) { c.Grace, c.Logger = 100*ms, j.logger() }, c.role, "2")
			if got := do(t, p, "any", "one"); got != "one" {
				t.Fatalf("the first answer is %q", got)
			}
			_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "any", Payload: []byte("two")})
			te := wantOutcome(t, err, c.want)
			if te.ExitCode != c.exit || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the error is %v with exit code %d, want %d and %q", err, te.ExitCode, c.exit, c.text)
			}
			if got := do(t, p, "any", "three"); got != "three" {
				t.Errorf("the first answer of the next worker is %q", got)
			}
			if n := len(j.events(Died)); n != 1 {
				t.Errorf("%d workers died, want one; %s", n, j.tell())
			}
			j.wantNoFaults(t)
		})
	}
}

func TestSecondAnswerEndsTheWorkerAndNotTheTask(t *testing.T) {
	t.Parallel()
	p := zooPool(t, nil, "double-answer")
	for i := range uint64(5) {
		if got := do(t, p, "any", "once"); got != "once" {
			t.Fatalf("the answer is %q", got)
		}
		poll(t, "the worker is gone", func() bool { return p.Stats().Deaths[ByProtocol] == i+1 })
	}
	if s := p.Stats(); s.Outcomes[bullpen.OK] != 5 {
		t.Errorf("5 tasks ended as %v", s.Outcomes)
	}
}

// Workers that never answer, in every slot, are killed at the timeout of their tasks, and
// the tasks behind them get others.
func TestHungWorkersInEverySlot(t *testing.T) {
	t.Parallel()
	for _, kind := range []Protocol{Frames, Lines, Exec} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := Config{Command: []string{self(), "zoo", "never-answers"}, Max: 2, Protocol: kind, Grace: 50 * ms}
			if kind != Frames {
				c.Command = []string{"sh", "-c", "trap '' TERM; read x; while :; do sleep 0.05; done"}
			}
			c.Limits.Timeout = time.Second // a busy machine may be late with the trap
			p := open(t, c)
			for _, e := range p.ExecuteAll(within(t, 30*time.Second), batchOf(4, "any", "x")) {
				if te := wantOutcome(t, e.Err, bullpen.Timeout); te.Signal != "killed" {
					t.Errorf("the worker ended by %q", te.Signal)
				}
			}
			if s := p.Stats(); kind != Exec && s.Deaths[ByTimeout] != 4 {
				t.Errorf("the deaths are %v, want 4 by timeout", s.Deaths)
			}
		})
	}
}

// An error of the handler is the task's, not the worker's.
func TestFailureLeavesTheWorkerWarm(t *testing.T) {
	t.Parallel()
	p := selfPool(t, nil)
	pid := do(t, p, "pid", "")
	for _, c := range []struct {
		name, payload string
		want          bullpen.Outcome
		message       string
	}{{"fail", "plain:no way", bullpen.Failed, "no way"}, {"panic", "oh no", bullpen.Panic, "oh no"}} {
		_, err := p.Execute(t.Context(), bullpen.Task{Name: c.name, Payload: []byte(c.payload)})
		te := wantOutcome(t, err, c.want)
		if te.Message != c.message || te.Signal != "" {
			t.Errorf("%s: the error is %+v", c.name, te)
		}
	}
	if again := do(t, p, "pid", ""); again != pid {
		t.Errorf("the worker is %s, was %s", again, pid)
	}
}

// An idle worker that is killed at any instant loses nothing: the task that is
// given to it goes to another one.
func TestIdleWorkerKilledLosesNothing(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 1, 2 })
	rounds := 40
	if long() {
		rounds = 2000
	}
	for i := range rounds {
		do(t, p, "echo", "warm")
		if i%3 == 0 {
			pause(time.Duration(i) * time.Microsecond)
		}
		if signalWorkers(p, syscall.SIGKILL) == 0 {
			t.Fatal("there is no worker to kill")
		}
		if i%2 == 0 {
			pause(time.Duration(i*7) * time.Microsecond)
		}
		if got := do(t, p, "echo", "safe"); got != "safe" {
			t.Fatalf("the answer is %q", got)
		}
	}
	if s := p.Stats(); s.Outcomes[bullpen.OK] != uint64(2*rounds) || s.Deaths[BySignal] == 0 {
		t.Errorf("%d tasks ended as %v; deaths %v", 2*rounds, s.Outcomes, s.Deaths)
	}
}

// A process that is gone before its priority is set is a failed start like any other.
func TestWorkerThatEndsAtOnceWithPriorityAndProcessors(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{"true"}, Max: 2, Nice: 15, CPUs: []int{0}})
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "any"})
	var se *StartError
	if !errors.As(err, &se) || se.Exit != "exit code 0" {
		t.Errorf("the error is %v", err)
	}
}

// A worker that closes both ends, or stops reading, is found out.
func TestWorkerThatStopsReading(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Arena, c.Window, c.Grace = -1, 4, 100*ms })
	payload := strings.Repeat("x", 4<<20) // more than a pipe holds
	ctx, cancel := context.WithCancel(t.Context())
	stuck := make(chan error, 1)
	go func() {
		_, err := p.Execute(ctx, bullpen.Task{Name: "stubborn", Payload: []byte("1h")})
		stuck <- err
	}()
	poll(t, "it runs", func() bool { return p.Stats().InHand == 1 })
	behind := make(chan error, 1)
	go func() {
		_, err := p.Execute(t.Context(), bullpen.Task{Name: "echo", Payload: []byte(payload)})
		behind <- err
	}()
	poll(t, "both are in the pool", func() bool { s := p.Stats(); return s.InHand+s.Queued == 2 })
	cancel()
	_ = wantOutcome(t, <-stuck, bullpen.Canceled)
	if err := <-behind; err != nil {
		t.Errorf("the task behind a worker that was killed: %v", err)
	}
}
