//go:build linux

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// batchVar has the folder of a node that works off batches.
const batchVar = "BULLPEN_TEST_BATCHES"

const (
	batchMembers = 150 // of each batch, one of ten of them a chain
	batchFails   = 7   // of these
)

// runBatches is a node: it enqueues batches, each by its key, and works them off
// until all have ended.
func runBatches(dir string, batches int) error {
	ran, err := os.OpenFile(filepath.Join(dir, "ran"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer ran.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(filepath.Join(dir, "store")), Lease: time.Second, Retry: job.Retry{Attempts: 1, Nodes: 1000}})
	if err != nil {
		return err
	}
	defer q.Close() // it is over then
	p, err := pool.New(pool.Config{Max: 4, Handlers: allBatchTasks(func(_ context.Context, t bullpen.Task) ([]byte, error) {
		if _, err := fmt.Fprintf(ran, "%s %s %s\n", t.ID, t.Name, queue.AttemptOf(t).Batch); err != nil {
			return nil, err
		}
		pause(rand.N(5 * time.Millisecond))
		if t.Name == "fails" {
			return nil, bullpen.Fail("no", false)
		}
		return t.Payload, nil
	})})
	if err != nil {
		return err
	}
	defer p.Close() // it is over then
	worked := make(chan error, 1)
	go func() { worked <- q.Work(ctx, p, queue.WorkConfig{}) }() // ends with ctx; waited for below
	for n := range batches {
		if _, err := q.EnqueueBatch(ctx, namedBatch(n), membersOf()); err != nil {
			return err
		}
	}
	for n := range batches {
		i, err := q.OpenBatch(ctx, namedBatch(n))
		if err == nil {
			i, err = q.WaitBatch(ctx, i.ID)
		}
		if err == nil {
			_, err = q.WaitChain(ctx, i.ThenID)
		}
		if err == nil {
			_, err = q.Wait(ctx, i.FailedID)
		}
		if err != nil {
			return err
		}
	}
	cancel()
	return <-worked
}

func allBatchTasks(h bullpen.Handler) map[string]bullpen.Handler {
	all := map[string]bullpen.Handler{}
	for _, name := range []string{"good", "fails", "second", "third", "then", "after", "failed"} {
		all[name] = h
	}
	return all
}

func namedBatch(n int) job.Batch {
	return job.Batch{Key: fmt.Sprint("batch ", n), Then: &job.Job{Name: "then", Then: []job.Job{{Name: "after"}}}, Failed: &job.Job{Name: "failed"}}
}

func membersOf() []job.Job {
	all := make([]job.Job, batchMembers)
	for i := range all {
		if all[i].Name = "good"; i < batchFails {
			all[i].Name = "fails"
		}
		if i%10 == 9 {
			all[i].Then = []job.Job{{Name: "second"}, {Name: "third"}}
		}
	}
	return all
}

// The node that has batches is killed again and again. In the end each member has
// one outcome, and each callback was one job.
func TestChaosBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute: run it without -short")
	}
	t.Parallel()
	dir, batches, kills := t.TempDir(), rounds(6, 40), rounds(8, 60)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for done := false; !done; {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", batchVar, batches, dir))
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if killed < kills {
			kill := time.AfterFunc(100*time.Millisecond+rand.N(900*time.Millisecond), func() { cmd.Process.Kill() })
			defer kill.Stop()
		}
		var exit *exec.ExitError
		switch err := cmd.Wait(); {
		case err == nil:
			done = true
		case errors.As(err, &exit) && exit.ExitCode() == -1:
			killed++
		default:
			t.Fatalf("the node ended by itself: %v\n%s", err, said.String())
		}
	}
	checkBatches(t, dir, batches, killed)
}

func checkBatches(t *testing.T, dir string, batches, killed int) {
	t.Helper()
	q := openQueue(t, queue.Config{Store: embedded.At(filepath.Join(dir, "store"))})
	for n := range batches {
		i, err := q.OpenBatch(t.Context(), namedBatch(n))
		if err != nil || i.State != job.BatchDone || i.Total != batchMembers || i.Failed != batchFails || i.OK != batchMembers-batchFails {
			t.Errorf("batch %d is %+v, %v", n, i, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	runs, names := map[string]int{}, map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var id, name, batch string
		if n, _ := fmt.Sscan(line, &id, &name, &batch); n < 2 {
			t.Fatalf("%q", line)
		}
		if runs[id]++; names[name] == nil {
			names[name] = map[string]bool{}
		}
		names[name][id] = true
	}
	for name, each := range map[string]int{"good": batchMembers - batchFails, "fails": batchFails, "second": batchMembers / 10, "third": batchMembers / 10, "then": 1, "after": 1, "failed": 1} {
		if got := len(names[name]); got != each*batches {
			t.Errorf("%d jobs ran task %s, want %d", got, name, each*batches)
		}
	}
	again := 0
	for _, n := range runs {
		again += n - 1
	}
	seen := map[string]bool{}
	for f := (job.Filter{States: []job.State{job.Done, job.Dead, job.Canceled}, Limit: 5000}); ; {
		page, err := q.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			if id := page.Jobs[i].ID; seen[id] || runs[id] == 0 {
				t.Errorf("job %s has two outcomes, or one and never ran", id)
			}
			seen[page.Jobs[i].ID] = true
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if len(seen) != len(runs) {
		t.Errorf("%d jobs ran, and there are %d outcomes", len(runs), len(seen))
	}
	t.Logf("%d kills; %d jobs in %d batches, %d runs again", killed, len(runs), batches, again)
}
