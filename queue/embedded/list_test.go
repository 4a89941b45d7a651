package embedded_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// TestPagesOfAMillion wants each page of a list of a million jobs soon, whatever the
// filter selects, and the memory of a walk bounded. It logs the figures.
func TestPagesOfAMillion(t *testing.T) {
	if os.Getenv("BULLPEN_LONG") == "" {
		t.Skip("it enqueues a million jobs, which takes a minute; set BULLPEN_LONG")
	}
	q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	const n = 1_000_000
	last := enqueueMany(t, q, n)
	for _, c := range []struct {
		name   string
		filter job.Filter
	}{
		{"first", job.Filter{States: []job.State{job.Queued, job.Running}}},
		{"newest", job.Filter{States: []job.State{job.Queued, job.Running}, Newest: true}},
		{"newest from the middle", job.Filter{States: []job.State{job.Queued, job.Running}, Newest: true, After: "1.500000"}},
		{"a rare queue", job.Filter{States: []job.State{job.Queued, job.Running}, Queue: "rare"}},
		{"no match", job.Filter{States: []job.State{job.Queued, job.Running}, Search: "nowhere", Newest: true}},
		{"none scheduled", job.Filter{States: []job.State{job.Scheduled}}},
		{"none dead", job.Filter{States: []job.State{job.Dead}}},
	} {
		turnPages(t, q, c.name, c.filter)
	}
	for range 2 { // the first one makes the consumers
		begin := time.Now()
		counts, err := q.Counts(t.Context(), "mail")
		if err != nil || counts.Waiting != n-10 {
			t.Errorf("Counts = %+v, %v, want all that wait", counts, err)
		}
		t.Logf("counting took %v", time.Since(begin))
	}
	page, err := q.List(t.Context(), job.Filter{States: []job.State{job.Queued, job.Running}, Newest: true, Limit: 1})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != last {
		t.Errorf("the newest is %+v, %v, want the last one that was enqueued", page, err)
	}
}

// enqueueMany enqueues n jobs, ten of them in the midst to another queue, and returns
// the id of the last.
func enqueueMany(t *testing.T, q *queue.Queue, n int) string {
	t.Helper()
	const part = 10_000
	var last []job.Ref
	for i := range n / part {
		jobs := make([]job.Job, part)
		for k := range jobs {
			jobs[k] = job.Job{Queue: "mail", Name: "send", Payload: fmt.Appendf(nil, "%0100d", k)}
			if i == n/part/2 && k < 10 {
				jobs[k].Queue = "rare"
			}
		}
		var err error
		if last, err = q.EnqueueAll(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
	}
	return last[part-1].ID
}

// turnPages reads pages of a list, and tells how long they took.
func turnPages(t *testing.T, q *queue.Queue, name string, filter job.Filter) {
	t.Helper()
	const allowed = 20 * 200 * time.Millisecond
	var took []time.Duration
	found := 0
	for range 30 {
		begin := time.Now()
		page, err := q.List(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begin))
		found += len(page.Jobs)
		if filter.After = page.Next; page.Next == "" {
			break
		}
	}
	slices.Sort(took)
	t.Logf("%-24s %2d pages of %d jobs in all, p50 %v, longest %v", name, len(took), found, took[len(took)/2], took[len(took)-1])
	if longest := took[len(took)-1]; longest > allowed {
		t.Errorf("%s: a page took %v, want %v at most", name, longest, allowed)
	}
}
