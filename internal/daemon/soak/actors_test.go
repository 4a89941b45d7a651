//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// outcomeOf tells how a job ended that gave err, and whether it has ended at all.
func outcomeOf(err error) (string, bool) {
	var end *job.EndError
	if errors.As(err, &end) {
		return end.Outcome.String(), true
	}
	return bullpen.OK.String(), err == nil
}

// submit hands in jobs of all kinds, waits for some, and cancels some.
func (s *soak) submit(ctx context.Context, random *rand.Rand) {
	tasks := []string{"echo", "echo", "echo", "echo", "sleep", "fail", "exit", "panic"}
	for n := 0; ctx.Err() == nil; n++ {
		pool := []string{"one", "two"}[random.IntN(2)]
		j := job.Job{Queue: pool, Name: tasks[random.IntN(len(tasks))], Retry: job.Retry{Attempts: 2, Crashes: 2, Backoff: 10 * time.Millisecond}}
		if j.Name == "echo" {
			j.Payload = []byte(strings.Repeat("x", random.IntN(3000)) + strconv.Itoa(n))
		}
		switch random.IntN(8) {
		case 0:
			j.Delay = time.Duration(random.IntN(500)) * time.Millisecond
		case 1:
			j.Key = fmt.Sprintf("key-%d-%d", random.Uint32(), n)
		case 2:
			j.Priority = job.High
		case 3:
			j.Limits.Timeout = 20 * time.Millisecond
		}
		s.hand(ctx, random, pool, j)
	}
}

// hand hands one job in, in one of the ways there are.
func (s *soak) hand(ctx context.Context, random *rand.Rand, pool string, j job.Job) {
	want := ""
	if j.Name == "echo" {
		want = string(j.Payload)
	}
	switch random.IntN(6) {
	case 0:
		_, err := s.site.client.RunEphemeral(ctx, pool, bullpen.Task{Name: j.Name, Payload: j.Payload, Limits: j.Limits})
		s.note("ephemeral " + wordOf(err))
	case 1, 2:
		ref, result, err := s.site.client.Run(ctx, j)
		if ref.ID == "" {
			s.note("run: " + wordOf(err))
			return
		}
		s.accept(ref.ID, want)
		if outcome, ended := outcomeOf(err); ended {
			s.tell(ref.ID, outcome)
			s.note("run " + outcome)
			if outcome == "ok" && want != "" && string(result.Payload) != want {
				s.t.Errorf("job %s gave what is not its payload", ref.ID)
			}
		}
	default:
		ref, err := s.site.client.Enqueue(ctx, j)
		if err != nil {
			s.note("enqueue: " + wordOf(err))
			return
		}
		s.accept(ref.ID, want)
		s.note("enqueued")
		if random.IntN(10) == 0 {
			s.cancel(ctx, ref.ID)
		}
	}
}

func (s *soak) cancel(ctx context.Context, id string) {
	info, err := s.site.client.Cancel(ctx, id)
	if err != nil {
		s.note("cancel: " + wordOf(err))
		return
	}
	s.tell(id, info.Outcome.String())
	s.note("canceled")
}

// wordOf says in few words what an error is.
func wordOf(err error) string {
	var fault *client.Error
	var task *bullpen.TaskError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &task):
		return task.Outcome.String()
	case errors.As(err, &fault):
		return fault.Cause
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "out of time"
	default:
		return err.Error()
	}
}

// killWorker kills a worker process by force.
func (s *soak) killWorker(context.Context) {
	all := s.site.workers()
	if len(all) == 0 {
		return
	}
	if err := syscall.Kill(all[rand.IntN(len(all))], syscall.SIGKILL); err == nil {
		s.note("killed a worker")
	}
}

func (s *soak) scale(ctx context.Context) {
	least, most := rand.IntN(2), 1+rand.IntN(3)
	_, err := s.site.client.Scale(ctx, "one", client.Scale{Min: &least, Max: &most})
	s.note("scaled: " + wordOf(err))
}

func (s *soak) reload(ctx context.Context) {
	var err error
	if rand.IntN(2) == 0 {
		_, err = s.site.client.ReloadPool(ctx, "two")
	} else {
		s.site.configure(s.t, 1+rand.IntN(3))
		_, err = s.site.client.Reload(ctx)
	}
	s.note("reloaded: " + wordOf(err))
}

func (s *soak) pause(ctx context.Context) {
	if _, err := s.site.client.Pause(ctx, "two"); err != nil {
		s.note("pause: " + wordOf(err))
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(300 * time.Millisecond)):
	}
	s.resume()
	s.note("paused")
}

// resume lets the pool work again, whatever happens to the daemon meanwhile.
func (s *soak) resume() {
	for end := time.Now().Add(time.Minute); ; {
		_, err := s.site.client.Resume(context.WithoutCancel(s.t.Context()), "two")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.t.Errorf("the pool could not be resumed: %v", err)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// restart ends the daemon, in order or by force, and starts it again.
func (s *soak) restart(context.Context) {
	if rand.IntN(2) == 0 {
		s.site.stop(s.t)
		s.note("stopped")
	} else {
		s.site.kill(s.t)
		s.note("killed")
	}
	s.site.orphans(s.t)
	s.site.start(s.t)
}

// sample is what the daemon uses.
type sample struct {
	memory                  int64 // resident, in bytes
	descriptors, goroutines int
}

func (s sample) String() string {
	return fmt.Sprintf("%.1f MiB, %d descriptors, %d goroutines", float64(s.memory)/(1<<20), s.descriptors, s.goroutines)
}

func readInt(path, field string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, field); found {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, field)
}
