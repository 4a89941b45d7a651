package queueprom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open opens a queue in memory with two jobs in "mail", one of them of low
// priority, and "post" paused.
func open(t *testing.T) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Config{Store: queue.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, j := range []job.Job{
		{Queue: "mail", Name: "send", Key: "a"}, {Queue: "mail", Name: "send", Key: "a"}, {Queue: "mail", Name: "send", Priority: job.Low},
	} {
		if _, err := q.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Pause(t.Context(), "post"); err != nil {
		t.Fatal(err)
	}
	return q
}

func names(all ...string) func() []string { return func() []string { return all } }

// TestNamesAreConventional asks the linter of the metrics library.
func TestNamesAreConventional(t *testing.T) {
	t.Parallel()
	c, err := New(open(t), names("mail", "post", "mail"))
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry() // also holds Collect against Describe
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// wantSeries compares all metrics that text has.
func wantSeries(t *testing.T, c *Collector, text string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestAQueueInMemory(t *testing.T) {
	t.Parallel()
	q := open(t)
	c, err := New(q, names("post", "mail"))
	if err != nil {
		t.Fatal(err)
	}
	wantSeries(t, c, `
# HELP bullpen_queue_duplicates_total Jobs that had the key of an existing job.
# TYPE bullpen_queue_duplicates_total counter
bullpen_queue_duplicates_total{queue="mail"} 1
bullpen_queue_duplicates_total{queue="post"} 0
# HELP bullpen_queue_enqueued_total Jobs that this program enqueued.
# TYPE bullpen_queue_enqueued_total counter
bullpen_queue_enqueued_total{queue="mail"} 2
bullpen_queue_enqueued_total{queue="post"} 0
# HELP bullpen_queue_in_hand Jobs that this program is running.
# TYPE bullpen_queue_in_hand gauge
bullpen_queue_in_hand 0
# HELP bullpen_queue_paused 1 while the queue is paused, else 0.
# TYPE bullpen_queue_paused gauge
bullpen_queue_paused{queue="mail"} 0
bullpen_queue_paused{queue="post"} 1
# HELP bullpen_queue_jobs_held Jobs that could start but for the limits of their groups.
# TYPE bullpen_queue_jobs_held gauge
bullpen_queue_jobs_held{priority="high",queue="mail"} 0
bullpen_queue_jobs_held{priority="high",queue="post"} 0
bullpen_queue_jobs_held{priority="low",queue="mail"} 0
bullpen_queue_jobs_held{priority="low",queue="post"} 0
bullpen_queue_jobs_held{priority="normal",queue="mail"} 0
bullpen_queue_jobs_held{priority="normal",queue="post"} 0
# HELP bullpen_queue_jobs_taken Jobs that programs are running, or that wait a short time for another attempt.
# TYPE bullpen_queue_jobs_taken gauge
bullpen_queue_jobs_taken{priority="high",queue="mail"} 0
bullpen_queue_jobs_taken{priority="high",queue="post"} 0
bullpen_queue_jobs_taken{priority="low",queue="mail"} 0
bullpen_queue_jobs_taken{priority="low",queue="post"} 0
bullpen_queue_jobs_taken{priority="normal",queue="mail"} 0
bullpen_queue_jobs_taken{priority="normal",queue="post"} 0
# HELP bullpen_queue_jobs_waiting Jobs that can start.
# TYPE bullpen_queue_jobs_waiting gauge
bullpen_queue_jobs_waiting{priority="high",queue="mail"} 0
bullpen_queue_jobs_waiting{priority="high",queue="post"} 0
bullpen_queue_jobs_waiting{priority="low",queue="mail"} 1
bullpen_queue_jobs_waiting{priority="low",queue="post"} 0
bullpen_queue_jobs_waiting{priority="normal",queue="mail"} 1
bullpen_queue_jobs_waiting{priority="normal",queue="post"} 0
# HELP bullpen_store_ask_failures_total Requests to the store that were not answered.
# TYPE bullpen_store_ask_failures_total counter
bullpen_store_ask_failures_total{what="depth"} 0
bullpen_store_ask_failures_total{what="status"} 0
# HELP bullpen_store_failed 1 if the store has failed and needs a restart, else 0.
# TYPE bullpen_store_failed gauge
bullpen_store_failed 0
`)
}

// fake is a queue whose store answers as it is set.
type fake struct {
	stats  queue.Stats
	queues map[string]queue.QueueStats
	status queue.Status
	oldest time.Time
	err    error
	asks   atomic.Int64
	most   atomic.Int64 // at a time
	now    atomic.Int64
	// hold makes an ask wait until it is closed or its time is over.
	hold chan struct{}
}

func (f *fake) Stats() queue.Stats                      { return f.stats }
func (f *fake) QueueStats(name string) queue.QueueStats { return f.queues[name] }
func (f *fake) QueueNames() []string                    { return slices.Collect(maps.Keys(f.queues)) }
func (f *fake) Err() error                              { return f.err }

func (f *fake) Status(ctx context.Context) (queue.Status, error) {
	select {
	case <-f.hold:
		return f.status, f.err
	case <-ctx.Done():
		return queue.Status{}, ctx.Err()
	}
}

func (f *fake) Depth(ctx context.Context, name string) ([]job.Depth, error) {
	f.asks.Add(1)
	f.most.Store(max(f.most.Load(), f.now.Add(1)))
	defer f.now.Add(-1)
	select {
	case <-f.hold:
		return []job.Depth{{Queue: name, Priority: job.High, Waiting: 3, Oldest: f.oldest}}, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func answering() *fake {
	f := &fake{hold: make(chan struct{})}
	close(f.hold)
	return f
}

func TestAStoreWithADisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := answering()
		f.stats = queue.Stats{Taken: 9, InHand: 2, Recording: 1}
		mail := queue.QueueStats{Ended: map[bullpen.Outcome]uint64{}, Taken: 9}
		mail.Ended[bullpen.OK], mail.Ended[bullpen.Lost] = 7, 1
		f.queues = map[string]queue.QueueStats{"mail": mail, "elsewhere": {Dead: 4}}
		f.status = queue.Status{
			Kind: "embedded", Replicas: 1, Jobs: queue.Usage{Messages: 5, Bytes: 1000},
			Sync: queue.Sync{Syncs: 10, Confirms: 40, P50: time.Millisecond, P99: 2 * time.Millisecond, Max: 3 * time.Millisecond, Last: 4 * time.Millisecond},
		}
		f.status.DeadKept.Oldest = time.Now().Add(-time.Hour)
		f.oldest = time.Now().Add(-90 * time.Second)
		wantSeries(t, collector(f, names("mail")), `
# HELP bullpen_queue_oldest_age_seconds Age of the oldest job in the queue, 0 for none.
# TYPE bullpen_queue_oldest_age_seconds gauge
bullpen_queue_oldest_age_seconds{priority="high",queue="mail"} 90
# HELP bullpen_queue_dead_total Jobs that failed for good.
# TYPE bullpen_queue_dead_total counter
bullpen_queue_dead_total{queue="elsewhere"} 4
bullpen_queue_dead_total{queue="mail"} 0
# HELP bullpen_queue_recording Jobs that have ended and whose outcome is not yet on disk.
# TYPE bullpen_queue_recording gauge
bullpen_queue_recording 1
# HELP bullpen_store_confirms_total Writes that syncs of the disk have confirmed.
# TYPE bullpen_store_confirms_total counter
bullpen_store_confirms_total 40
# HELP bullpen_store_dead_oldest_age_seconds Age of the oldest dead job, 0 for none.
# TYPE bullpen_store_dead_oldest_age_seconds gauge
bullpen_store_dead_oldest_age_seconds 3600
# HELP bullpen_store_info 1 for the kind of store.
# TYPE bullpen_store_info gauge
bullpen_store_info{kind="embedded"} 1
# HELP bullpen_store_messages Messages that a stream of the store holds.
# TYPE bullpen_store_messages gauge
bullpen_store_messages{stream="dead"} 0
bullpen_store_messages{stream="jobs"} 5
bullpen_store_messages{stream="outcomes"} 0
bullpen_store_messages{stream="state"} 0
# HELP bullpen_store_sync_seconds Time that the last 1024 syncs of the disk took.
# TYPE bullpen_store_sync_seconds gauge
bullpen_store_sync_seconds{statistic="last"} 0.004
bullpen_store_sync_seconds{statistic="max"} 0.003
bullpen_store_sync_seconds{statistic="p50"} 0.001
bullpen_store_sync_seconds{statistic="p99"} 0.002
# HELP bullpen_store_syncs_total Syncs of the disk, where this program runs the store.
# TYPE bullpen_store_syncs_total counter
bullpen_store_syncs_total 10
`)
		if n := testutil.CollectAndCount(collector(f, names("mail", "new")), "bullpen_queue_ended_total"); n != 30 {
			t.Errorf("%d outcomes of three queues have a series, want 10 each", n)
		}
	})
}

// TestASilentStore wants the rest of the scrape after a second, and a count of the
// asks without an answer.
func TestASilentStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{hold: make(chan struct{})}
		var all []string
		for i := range 20 {
			all = append(all, fmt.Sprint("q", i))
		}
		c := collector(f, names(all...))
		begin := time.Now()
		var scrapes sync.WaitGroup
		for range 3 { // at the same time: they share one ask
			scrapes.Go(func() {
				if n := testutil.CollectAndCount(c, "bullpen_queue_jobs_waiting", "bullpen_store_info"); n != 0 {
					t.Errorf("%d series show what nobody said", n)
				}
			})
		}
		scrapes.Wait()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("three scrapes took %v, want a second", took)
		}
		if n := f.asks.Load(); n != 20 {
			t.Errorf("the store was asked %d times, want 20", n)
		}
		wantSeries(t, c, `
# HELP bullpen_queue_in_hand Jobs that this program is running.
# TYPE bullpen_queue_in_hand gauge
bullpen_queue_in_hand 0
# HELP bullpen_store_ask_failures_total Requests to the store that were not answered.
# TYPE bullpen_store_ask_failures_total counter
bullpen_store_ask_failures_total{what="depth"} 20
bullpen_store_ask_failures_total{what="status"} 1
`)
		close(f.hold)
		<-time.After(fresh)
		if n := testutil.CollectAndCount(c, "bullpen_queue_jobs_waiting"); n != 20 {
			t.Errorf("%d queues are shown once the store answers, want 20", n)
		}
		if n := f.most.Load(); n > abreast {
			t.Errorf("%d queues were asked for at a time, want at most %d", n, abreast)
		}
	})
}

func TestAnswersAreKeptForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := answering()
		var list []string
		c := collector(f, func() []string { return list })
		list = []string{"a"}
		scrape := func(queues int, asks int64) {
			t.Helper()
			if n := testutil.CollectAndCount(c, "bullpen_queue_jobs_waiting"); n != queues {
				t.Errorf("%d queues are shown, want %d", n, queues)
			}
			if n := f.asks.Load(); n != asks {
				t.Errorf("the store was asked %d times, want %d", n, asks)
			}
		}
		scrape(1, 1)
		list = []string{"a", "b"} // a reload
		scrape(1, 1)
		<-time.After(fresh)
		scrape(2, 3)
		f.err = errors.New("broken")
		<-time.After(fresh)
		wantSeries(t, c, `
# HELP bullpen_store_failed 1 if the store has failed and needs a restart, else 0.
# TYPE bullpen_store_failed gauge
bullpen_store_failed 1
# HELP bullpen_store_ask_failures_total Requests to the store that were not answered.
# TYPE bullpen_store_ask_failures_total counter
bullpen_store_ask_failures_total{what="depth"} 2
bullpen_store_ask_failures_total{what="status"} 1
`)
	})
}

func TestNewRefusesNil(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, nil); err == nil {
		t.Error("New took nil")
	}
}

// TestOnlyTheAdapterLinksTheLibrary asks the compiler what a program with a queue
// links.
func TestOnlyTheAdapterLinksTheLibrary(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/bullpen-run/bullpen/queue").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(list), "prometheus") {
		t.Error("package queue links the metrics library")
	}
}
