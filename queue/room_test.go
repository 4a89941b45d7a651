package queue_test

import (
	"context"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
)

// full is a pool of two workers that a job of the queue and somebody else's task fill.
type full struct {
	queue  *queue.Queue
	pool   *pool.Pool
	job    job.Ref
	other  *bullpen.Handle
	ends   map[string]chan struct{} // of these two
	worked func() error             // ends the call of Work
}

func fillPool(ctx context.Context, t *testing.T) *full {
	t.Helper()
	f := &full{ends: map[string]chan struct{}{"job": make(chan struct{}), "other": make(chan struct{})}}
	var err error
	f.pool, err = pool.New(pool.Config{Max: 2, Handlers: map[string]bullpen.Handler{"wait": f.wait, "short": f.short}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantNone(t, f.pool.Close()) })
	f.queue, err = queue.Open(ctx, queue.Config{Store: queue.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantNone(t, f.queue.Close()) })
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.queue.Work(working, f.pool, queue.WorkConfig{}) }() // ends with stop; worked waits for it
	f.worked = func() error {
		stop()
		return <-ended
	}
	if f.job, err = f.queue.Enqueue(ctx, job.Job{Name: "wait", Payload: []byte("job")}); err != nil {
		t.Fatal(err)
	}
	f.awaitCapacity(ctx, t, 1)
	if f.other, err = bullpen.Start(ctx, f.pool, bullpen.Task{Name: "wait", Payload: []byte("other")}); err != nil {
		t.Fatal(err)
	}
	f.awaitCapacity(ctx, t, 0)
	return f
}

func (f *full) wait(ctx context.Context, t bullpen.Task) ([]byte, error) {
	select {
	case <-f.ends[string(t.Payload)]:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *full) short(context.Context, bullpen.Task) ([]byte, error) { return nil, nil }

func (f *full) awaitCapacity(ctx context.Context, t *testing.T, want int) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ; f.pool.Capacity() != want; <-look.C {
		if ctx.Err() != nil {
			t.Fatalf("the pool has room for %d, want %d", f.pool.Capacity(), want)
		}
	}
}

func wantNone(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestWorkBesideOthers: when somebody else's task has ended, the next job runs beside
// the one that goes on.
func TestWorkBesideOthers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	f := fillPool(ctx, t)
	short, err := f.queue.Enqueue(ctx, job.Job{Name: "short"})
	if err != nil {
		t.Fatal(err)
	}
	soon, enough := context.WithTimeout(ctx, 100*time.Millisecond)
	defer enough()
	if _, err := f.queue.Wait(soon, short.ID); err == nil {
		t.Error("a job ended that no worker was free for")
	}
	close(f.ends["other"])
	if _, err := f.other.Result(); err != nil {
		t.Error(err)
	}
	if _, err := f.queue.Wait(ctx, short.ID); err != nil {
		t.Errorf("a job beside a free worker: %v", err)
	}
	close(f.ends["job"])
	if _, err := f.queue.Wait(ctx, f.job.ID); err != nil {
		t.Error(err)
	}
	wantNone(t, f.worked())
}
