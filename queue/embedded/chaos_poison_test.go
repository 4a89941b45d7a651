//go:build linux

package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// memoryBound is that of a worker, of which the race detector has its part.
const memoryBound = 256 << 20

// poisons gives the handlers that kill their worker. When they start and when
// they are about to die is written to the file ranVar.
func poisons() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		"segv": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			stamp(t, "start")
			fmt.Fprintln(os.Stderr, "about to die of a bad pointer")
			stamp(t, "death")
			// A shell in the worker's place: Go's runtime makes something of its own
			// of this signal.
			return nil, syscall.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c 0; kill -SEGV $$; sleep 60"}, os.Environ())
		},
		"deny": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			stamp(t, "start")
			if err := denyStart(); err != nil {
				return nil, err
			}
			os.Exit(0)
			return nil, nil
		},
		"hog": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			stamp(t, "start")
			fmt.Fprintln(os.Stderr, "about to take too much memory")
			var hoard [][]byte
			for i := range 4 * memoryBound >> 20 {
				block := bytes.Repeat([]byte{1}, 1<<20)
				hoard = append(hoard, block)
				if i%8 == 0 {
					stamp(t, "death") // the last one counts
				}
			}
			return nil, fmt.Errorf("%d MiB did not kill it", len(hoard))
		},
	}
}

// stamp notes when what happened, and as which attempt.
func stamp(t bullpen.Task, what string) {
	f, err := os.OpenFile(os.Getenv(ranVar), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	a := queue.AttemptOf(t)
	if _, err := fmt.Fprintf(f, "%s %d %t %d\n", what, a.Attempt, a.Redelivered, time.Now().UnixNano()); err != nil {
		panic(err)
	}
}

// poisonCase is a way to kill workers.
type poisonCase struct {
	name, stderr, signal string
	outcome              bullpen.Outcome
	limits               bullpen.Limits
}

// A job that kills its worker runs again at once, and is quarantined with
// evidence after exactly three workers, while the others go on.
func TestPoison(t *testing.T) {
	for _, c := range []poisonCase{
		{name: "segv", stderr: "bad pointer", signal: "segmentation fault", outcome: bullpen.Crashed},
		{name: "hog", stderr: "too much memory", outcome: bullpen.Memory, limits: bullpen.Limits{Memory: memoryBound}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := filepath.Join(t.TempDir(), "ran")
			q := openQueue(t, queue.Config{Store: embedded.At(filepath.Join(t.TempDir(), "store")), Lease: 2 * time.Second})
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			e, err := process.New(process.Config{
				Command: []string{exe}, Min: 3, Max: 3, Nice: process.HostNice, Limits: c.limits, Env: []string{ranVar + "=" + ran},
			})
			if err != nil && c.limits.Memory > 0 {
				t.Skipf("no bound of memory here: %v", err)
			}
			closing(t, e, err)
			if c.limits.Memory > 0 && !e.Guarantees().MemoryBound {
				t.Skip("no control group bounds the memory of workers here")
			}
			startWork(t, q, e, queue.WorkConfig{Queue: workQueue})
			c.run(t, q, ran)
		})
	}
}

func (c *poisonCase) run(t *testing.T, q *queue.Queue, ran string) {
	t.Helper()
	span := time.Duration(rounds(1, 5)) * time.Second
	var done atomic.Int64
	stop := others(t, q, &done)
	until(t, "the workers run", func() bool { return done.Load() > 300 })
	alone := rate(&done, span)
	sent := []byte("poison " + c.name)
	ref, err := q.Enqueue(t.Context(), job.Job{Queue: workQueue, Name: c.name, Payload: sent})
	if err != nil {
		t.Fatal(err)
	}
	began, before := time.Now(), done.Load()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = q.Wait(ctx, ref.ID)
	pause(span - time.Since(began))
	beside := float64(done.Load()-before) / time.Since(began).Seconds()
	stop()
	c.evidence(t, q, ref.ID, sent, err)
	again := c.redelivered(t, ran)
	t.Logf("from death to the next start: %v; the others: %.0f/s without it, %.0f/s with it (%+.1f %%)",
		again, alone, beside, 100*(beside-alone)/alone)
	if beside < alone/float64(rounds(100, 20)) { // a busy machine may leave it little
		t.Error("a single bad job holds up all others")
	}
}

// others lets eight callers run jobs of the same queue until stop is called. They
// are idempotent: one that had ended in a worker which dies before its answer is
// out counts as lost, and runs again only then.
func others(t *testing.T, q *queue.Queue, done *atomic.Int64) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	const callers = 8
	ended := make(chan error, callers)
	sound := payload(rand.New(rand.NewPCG(1, 2)), 100)
	for range callers {
		go func() { // ends with ctx; stop waits
			for ctx.Err() == nil {
				if _, _, err := q.Run(ctx, job.Job{Queue: workQueue, Name: "note", Payload: sound, Idempotent: true}); err != nil && ctx.Err() == nil {
					ended <- err
					return
				}
				done.Add(1)
			}
			ended <- nil
		}()
	}
	return func() {
		cancel()
		for range callers {
			if err := <-ended; err != nil {
				t.Errorf("another job: %v", err)
			}
		}
	}
}

// rate tells how fast n rises.
func rate(n *atomic.Int64, span time.Duration) float64 {
	began, before := time.Now(), n.Load()
	pause(span)
	return float64(n.Load()-before) / time.Since(began).Seconds()
}

// evidence looks at what is kept of the job.
func (c *poisonCase) evidence(t *testing.T, q *queue.Queue, id string, sent []byte, waited error) {
	t.Helper()
	var end *job.EndError
	if !errors.As(waited, &end) || end.Outcome != c.outcome || end.Reason != job.Quarantined || end.Attempts != 3 {
		t.Fatalf("the job ended so: %v", waited)
	}
	dead, err := q.GetDead(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dead.Payload, sent) || dead.Crashes != 3 || dead.Attempts != 3 || len(dead.History) != 3 {
		t.Errorf("the payload is %q; %d crashes, %d attempts, %d in the history", dead.Payload, dead.Crashes, dead.Attempts, len(dead.History))
	}
	for _, a := range dead.History {
		if a.Outcome != c.outcome || a.Worker == "" || c.signal != "" && a.Signal != c.signal {
			t.Errorf("an attempt is %+v", a)
		}
		if c.outcome == bullpen.Memory && a.PeakMemory < memoryBound/2 {
			t.Errorf("an attempt died of memory with a peak of %d bytes", a.PeakMemory)
		}
	}
	if !errors.As(dead.Err, &end) || end.Task == nil || !strings.Contains(end.Task.Detail, c.stderr) {
		t.Errorf("the last lines of standard error are not kept: %+v", end)
	}
}

// redelivered tells how long the job was out of hand after each death.
func (c *poisonCase) redelivered(t *testing.T, ran string) (again []time.Duration) {
	t.Helper()
	text, err := os.ReadFile(ran)
	if err != nil {
		t.Fatal(err)
	}
	var death int64
	starts := 0
	for line := range strings.Lines(string(text)) {
		var what string
		var attempt int
		var redelivered bool
		var at int64
		if _, err := fmt.Sscan(line, &what, &attempt, &redelivered, &at); err != nil {
			continue // of the other jobs
		}
		if what == "death" {
			death = at
		}
		if what != "start" {
			continue
		}
		if starts++; attempt != starts || redelivered != (starts > 1) {
			t.Errorf("start %d says it is attempt %d, redelivered %t", starts, attempt, redelivered)
		}
		if starts > 1 {
			d := time.Duration(at - death).Round(100 * time.Microsecond)
			again = append(again, d)
			if d > 30*time.Second {
				t.Errorf("the job was out of hand for %v", d)
			}
		}
	}
	if starts != 3 {
		t.Errorf("the job started %d times, want 3", starts)
	}
	return again
}
