//go:build linux

// Package soak lets a daemon work for a long time among everything that can happen
// to it, and holds it to its promise: every job that it has accepted has exactly one
// outcome, and it needs no more memory, descriptors and goroutines at the end than
// at the beginning.
package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/worker"
)

// TestMain makes the test binary the worker of the pools, too.
func TestMain(m *testing.M) {
	if worker.Serving() {
		worker.Main(worker.Config{Handlers: handlers()})
		return
	}
	leak.Main(m)
}

// handlers are what can happen to a task.
func handlers() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		"echo": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			fmt.Println("echo of", len(t.Payload), "bytes")
			return t.Payload, nil
		},
		"fail": func(context.Context, bullpen.Task) ([]byte, error) { return nil, bullpen.Fail("no", false) },
		"sleep": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(rand.N(200 * time.Millisecond)):
				return []byte("slept"), nil
			}
		},
		"exit":  func(context.Context, bullpen.Task) ([]byte, error) { os.Exit(3); return nil, nil },
		"panic": func(context.Context, bullpen.Task) ([]byte, error) { panic("as asked") },
	}
}

// span is how long the soak takes: a short time, and an hour or what BULLPEN_SOAK
// says where it is asked for.
func span(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("BULLPEN_SOAK")
	if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("BULLPEN_SOAK is %q: say how long, such as 1h", text)
	}
	return d
}

// soak is a run.
type soak struct {
	t    *testing.T
	site *site

	mu       sync.Mutex
	accepted map[string]string // the payload of each confirmed job by its id; guarded by mu
	outcomes map[string]string // the outcome that was reported of a job; guarded by mu
	notes    map[string]int    // what happened how often; guarded by mu
}

func (s *soak) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[what]++
}

// accept notes that the daemon has confirmed a job.
func (s *soak) accept(id, payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[id] = payload
}

// tell notes an outcome that a caller got, which must stay the only one.
func (s *soak) tell(id, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, is := s.outcomes[id]; is && before != outcome {
		s.t.Errorf("job %s ended as %s, and was reported before to have ended as %s", id, outcome, before)
	}
	s.outcomes[id] = outcome
}

// step is how long jobs are handed in before all of them are accounted for: fewer than
// the daemon keeps outcomes of.
const step = 20 * time.Second

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run it without -short")
	}
	total := span(t)
	s := &soak{t: t, site: newSite(t), accepted: map[string]string{}, outcomes: map[string]string{}, notes: map[string]int{}}
	s.site.start(t)
	var samples []sample
	const rounds = 3
	for round := range rounds {
		for left := total / rounds; left > 0; left -= step {
			s.work(min(step, left))
			s.settle()
			s.empty()
		}
		samples = append(samples, s.site.sample(t))
		t.Logf("round %d: %v; %v", round+1, samples[round], s.summary())
	}
	flat(t, samples)
	s.site.stop(t)
	s.site.orphans(t)
}

// work lets everything happen at once for a time.
func (s *soak) work(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	var actors sync.WaitGroup
	for i := range 6 {
		actors.Go(func() { s.submit(ctx, rand.New(rand.NewPCG(uint64(i), rand.Uint64()))) }) // ends with ctx, as all of them
	}
	actors.Go(func() { s.every(ctx, 300*time.Millisecond, s.killWorker) })
	actors.Go(func() { s.every(ctx, 700*time.Millisecond, s.scale) })
	actors.Go(func() { s.every(ctx, 1500*time.Millisecond, s.reload) })
	actors.Go(func() { s.every(ctx, 900*time.Millisecond, s.pause) })
	actors.Go(func() { s.every(ctx, 5*time.Second, s.restart) })
	actors.Wait()
	s.resume()
}

// every does something again and again, after random times around the mean.
func (s *soak) every(ctx context.Context, mean time.Duration, do func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(mean/2 + rand.N(mean)):
			do(ctx)
		}
	}
}

// settle waits until all accepted jobs have ended, each with one outcome.
func (s *soak) settle() {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	s.mu.Lock()
	ids := make([]string, 0, len(s.accepted))
	for id := range s.accepted {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		result, err := s.site.client.Wait(ctx, id)
		outcome, ended := outcomeOf(err)
		if !ended {
			s.t.Fatalf("job %s of %d: %v\n%s", id, len(ids), err, s.site.tell(s.t, id))
		}
		s.tell(id, outcome)
		s.mu.Lock()
		want := s.accepted[id]
		s.mu.Unlock()
		if outcome == "ok" && want != "" && string(result.Payload) != want {
			s.t.Errorf("job %s gave %d bytes that are not its payload", id, len(result.Payload))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes["settled"] += len(ids)
}

// empty forgets what has been compared, and what the daemon keeps of the dead.
func (s *soak) empty() {
	s.mu.Lock()
	clear(s.accepted)
	clear(s.outcomes)
	s.mu.Unlock()
	s.site.removeDead(s.t)
}

func (s *soak) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.notes)
}
