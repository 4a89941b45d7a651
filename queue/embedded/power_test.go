//go:build linux

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// powerLoad is a node with 64 callers that enqueue without a pause; 7 of 10 jobs
// are worked off at once, so that tables are written and merged.
func powerLoad() nodeConfig {
	return nodeConfig{Lease: time.Second, Concurrency: 16, Enqueuers: 64, Kept: 30, Waited: 90, Payload: 4096, Life: "0"}
}

// disks are those whose power is cut.
var disks = []struct{ name, outer, kind string }{
	{"ext4", "xfs", "ext4"},
	{"ext4 on a slow disk", "btrfs", "ext4"},
	{"xfs", "xfs", "xfs"},
	{"btrfs", "xfs", "btrfs"},
}

// A loss of power under load: whatever was confirmed before is there, or has its
// outcome; each outcome that was reported is there, and its job does not run again.
func TestPowerLoss(t *testing.T) { testPowerLoss(t, anyMoment) }

// The same when a table has just been begun, into which jobs go that were confirmed
// long before, while the file system has written down the names of files only.
func TestPowerLossWhenATableIsWritten(t *testing.T) { testPowerLoss(t, tableBegun) }

func testPowerLoss(t *testing.T, when moment) {
	t.Helper()
	for _, c := range disks {
		t.Run(c.name, func(t *testing.T) {
			if c.kind == "btrfs" && !long {
				t.Skip("a sync takes long there: make chaos runs it")
			}
			d := newDisk(t, c.outer, c.kind)
			jobs, ended := 0, 0
			for round := range rounds(1, 25) {
				w := d.cut(t, powerLoad(), when)
				jobs, ended = jobs+len(w.book.confirmed), ended+len(w.book.ended)
				t.Run(fmt.Sprint(round), func(t *testing.T) { afterCut(t, w) })
				w.drop(t)
			}
			t.Logf("%d rounds: %d confirmed jobs, %d of them with an outcome; none missing unless reported above", rounds(1, 25), jobs, ended)
		})
	}
}

// The control: the same node, the same load and the same cut, but a confirm
// does not wait for the sync. It has to lose jobs, or the test above says nothing.
func TestPowerLossControl(t *testing.T) {
	d := newDisk(t, "xfs", "ext4")
	jobs, missing := 0, 0
	for range rounds(1, 2) {
		c := powerLoad()
		c.Lazy = true
		w := d.cut(t, c, anyMoment)
		jobs, missing = jobs+len(w.book.confirmed), missing+lostBy(t, w.dir, w.book)
		w.drop(t)
	}
	t.Logf("without a sync %d of %d confirmed jobs are missing", missing, jobs)
	if missing == 0 {
		t.Error("nothing is lost without syncing: this way of cutting the power tests nothing")
	}
}

// lostBy counts the confirmed jobs that are not in the store.
func lostBy(t *testing.T, dir string, b *book) (missing int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(dir)})
	if err != nil {
		t.Logf("the store does not open: %v", err)
		return len(b.confirmed)
	}
	defer q.Close()
	for id := range b.confirmed {
		_, err := q.Get(ctx, id)
		if errors.Is(err, job.ErrNotFound) {
			missing++
		}
	}
	return missing
}

// afterCut opens the store that a cut has left and compares it with the book.
func afterCut(t *testing.T, w *wreck) {
	t.Helper()
	b, dir := w.book, w.dir
	events := newEventLog()
	q := openQueue(t, queue.Config{Store: embedded.At(dir), Lease: time.Second, Logger: events.logger(), Retry: job.Retry{Nodes: 1000}})
	<-events.verified
	missing := stillThere(t, q, b)
	if n := len(events.of(job.Missing)) + len(events.of(job.Damaged)); n > 0 || len(missing) > 0 {
		t.Errorf("%d of %d confirmed jobs are missing, the queue reports %d:\n%s", len(missing), len(b.confirmed), n, events.tail())
		w.tell(t, missing)
	}
	var mu sync.Mutex
	again := make(map[string]bool)
	handler := func(_ context.Context, task bullpen.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		again[task.ID] = true
		return task.Payload, intact(task.Payload)
	}
	e, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{"note": handler}})
	closing(t, e, err)
	stop := startWork(t, q, e, queue.WorkConfig{Queue: workQueue})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bad := 0
	for id, where := range b.confirmed {
		if where == keptQueue {
			continue
		}
		if _, err := q.Wait(ctx, id); err != nil {
			if bad++; bad < 10 {
				t.Errorf("job %s: %v", id, err)
			}
		}
	}
	stop()
	for id := range b.ended {
		if again[id] {
			t.Errorf("the outcome of job %s was durable, and it ran again", id)
		}
	}
}

// stillThere looks for each job of the book, and gives those that are missing.
func stillThere(t *testing.T, q *queue.Queue, b *book) (missing []string) {
	t.Helper()
	for id, where := range b.confirmed {
		i, err := q.Get(t.Context(), id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			missing = append(missing, id)
		case err != nil:
			t.Errorf("job %s: %v", id, err)
		case b.ended[id] != "":
			// Its Ack may be lost, so that it is still in the queue. Wait knows better.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			r, err := q.Wait(ctx, id)
			cancel()
			if err != nil || intact(r.Payload) != nil {
				t.Errorf("the outcome of job %s was reported, and now: %v", id, err)
			}
		case where == keptQueue && (i.State != job.Queued || intact(i.Payload) != nil):
			t.Errorf("job %s waited and is %v now", id, i.State)
		}
	}
	return missing
}
