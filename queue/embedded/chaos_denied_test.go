//go:build linux

package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// denyStart takes back what the shared page says of the tasks that this worker has
// started: it writes zeros over it.
func denyStart() error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	for s := bufio.NewScanner(maps); s.Scan(); {
		var from int64
		if !strings.Contains(s.Text(), "/memfd:") {
			continue
		}
		if _, err := fmt.Sscanf(s.Text(), "%x-", &from); err != nil {
			return err
		}
		const started = 64
		_, err := memory.WriteAt(make([]byte, 8), from+started)
		return err
	}
	return errors.New("no shared memory")
}

// cutAfterOne runs the first attempt of each denied job, and holds the second until
// its context ends: the test ends the program there.
type cutAfterOne struct {
	bullpen.Executor
	tries  atomic.Int64
	second chan struct{} // closed when it is here
}

func (e *cutAfterOne) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if t.Name != "deny" || e.tries.Add(1) == 1 {
		return e.Executor.Submit(ctx, t, done)
	}
	close(e.second)
	context.AfterFunc(ctx, func() { done(bullpen.Result{}, bullpen.ErrClosed) })
	return nil
}

// A job whose worker denies that it has started it, and dies, costs as many workers
// as its policy allows, also over a restart, and then is quarantined; the others go on.
func TestDeniedStartIsQuarantined(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	store := queue.Config{Store: embedded.At(filepath.Join(t.TempDir(), "store")), Lease: 2 * time.Second}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.New(process.Config{Command: []string{exe}, Min: 2, Max: 2, Nice: process.HostNice, Env: []string{ranVar + "=" + ran, "GORACE=atexit_sleep_ms=0"}})
	closing(t, p, err)

	first := openQueue(t, store)
	e := &cutAfterOne{Executor: p, second: make(chan struct{})}
	stop := startWork(t, first, e, queue.WorkConfig{Queue: workQueue, Grace: -1})
	const crashes = 5
	ref, err := first.Enqueue(t.Context(), job.Job{Queue: workQueue, Name: "deny", Retry: job.Retry{Crashes: crashes}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.second:
	case <-time.After(patience):
		t.Fatalf("there is no second attempt; the job has run %d times", runs(t, ran))
	}
	stop()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := openQueue(t, store)
	startWork(t, second, p, queue.WorkConfig{Queue: workQueue})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { // ends with ctx at the latest; the loop below waits
		_, err := second.Wait(ctx, ref.ID)
		ended <- err
	}()
	err = beside(t, second, ended)

	var end *job.EndError
	if !errors.As(err, &end) || end.Outcome != bullpen.Crashed || end.Reason != job.Quarantined ||
		end.Task == nil || !strings.Contains(end.Task.Error(), "none had reported its start") {
		t.Fatalf("the job ended so: %v", err)
	}
	dead, err := second.GetDead(t.Context(), ref.ID)
	if err != nil {
		t.Fatal(err)
	}
	if n := runs(t, ran); n != 6 || dead.Crashes != 6 || dead.Attempts != 2 {
		t.Errorf("the job ran %d times, in %d attempts that cost %d workers; want 6, 2 and 6", n, dead.Attempts, dead.Crashes)
	}
}

// beside runs other jobs, one after the other, until the job has ended for which ended
// waits, and wants none of them to take long.
func beside(t *testing.T, q *queue.Queue, ended <-chan error) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	longest, others := time.Duration(0), 0
	for waiting := true; waiting || others < 20; others++ {
		began := time.Now()
		if _, _, err := q.Run(ctx, job.Job{Queue: workQueue, Name: "note", Payload: payload(rand.New(rand.NewPCG(1, 2)), 100), Idempotent: true}); err != nil {
			t.Fatalf("another job: %v", err)
		}
		longest = max(longest, time.Since(began))
		select {
		case err = <-ended:
			waiting = false
		default:
		}
	}
	if longest > 3*time.Second {
		t.Errorf("one of %d other jobs took %v", others, longest)
	}
	return err
}

// runs is how often a job has started by what its handler has noted.
func runs(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "start ")
}
