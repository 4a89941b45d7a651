// Package queueprom shows a durable queue (package queue) to Prometheus.
//
//	c, err := queueprom.New(q, func() []string { return []string{"thumbnails", "mail"} })
//	if err != nil { … }
//	prometheus.MustRegister(c)
//
// What this program has done is read from [queue.Queue.Stats] and
// [queue.Queue.QueueStats] when the collector is scraped. How much waits, and how the store does, must be asked of the store
// ([queue.Queue.Depth], [queue.Queue.Status]): a scrape waits for the answers for
// a second at most and goes without those that are missing, and asks again after
// a second at the earliest. A program that does not import this package does not
// link the metrics library.
//
// # Metrics
//
// Of each queue, as the store says. All programs on one store say the same, so
// take max by (queue, priority) of them, not the sum:
//
//	bullpen_queue_jobs_waiting{queue,priority}        gauge    jobs that can start
//	bullpen_queue_jobs_held{queue,priority}           gauge    jobs that could start but for the limits of their groups
//	bullpen_queue_jobs_taken{queue,priority}          gauge    jobs that programs are running, or that wait a short time for another attempt
//	bullpen_queue_oldest_age_seconds{queue,priority}  gauge    age of the oldest job in the queue, 0 for none
//	bullpen_queue_paused{queue}                       gauge    1 while the queue is paused
//
// Of the store:
//
//	bullpen_store_info{kind}                          gauge    1; memory, embedded or server
//	bullpen_store_failed                              gauge    1 if the store has failed and needs a restart
//	bullpen_store_replicas                            gauge    number of servers that hold a copy of each job
//	bullpen_store_messages{stream}                    gauge    messages of a stream: jobs, outcomes, state, dead
//	bullpen_store_bytes{stream}                       gauge    size of a stream
//	bullpen_store_dead_oldest_age_seconds             gauge    age of the oldest dead job, 0 for none
//	bullpen_store_dead_limit_age_seconds              gauge    maximum time that dead jobs are kept
//	bullpen_store_syncs_total                         counter  syncs of the disk, where this program runs the store
//	bullpen_store_confirms_total                      counter  writes that these syncs have confirmed
//	bullpen_store_sync_seconds{statistic}             gauge    time of the last 1024 syncs: p50, p99, max, last
//	bullpen_store_ask_failures_total{what}            counter  requests for depth or status that were not answered; their metrics are missing
//
// Of what this program has done since it opened the queue, and has in hand:
//
//	bullpen_queue_enqueued_total{queue}               counter  jobs that this program enqueued
//	bullpen_queue_duplicates_total{queue}             counter  jobs that had the key of an existing job
//	bullpen_queue_refused_total{queue}                counter  jobs that were refused because the queue was full
//	bullpen_queue_taken_total{queue}                  counter  jobs that this program received
//	bullpen_queue_redelivered_total{queue}            counter  jobs taken over from a program that died
//	bullpen_queue_ended_total{queue,outcome}          counter  outcomes that were recorded
//	bullpen_queue_retried_total{queue}                counter  attempts that were followed by another one
//	bullpen_queue_gave_back_total{queue}              counter  jobs that were given back before they started
//	bullpen_queue_dead_total{queue}                   counter  jobs that failed for good
//	bullpen_queue_quarantined_total{queue}            counter  jobs that killed too many workers or programs
//	bullpen_queue_wait_seconds{queue}                 histogram  from when a job could start, or start again, until the pool got it
//	bullpen_queue_run_seconds{queue}                  histogram  run time of attempts
//	bullpen_queue_damaged_total                       counter  stored records with a wrong checksum
//	bullpen_queue_missing_total                       counter  members of batches that were neither in the queue nor had a known outcome
//	bullpen_queue_batches_total                       counter  batches that were opened
//	bullpen_queue_batches_ended_total                 counter  batches that this program has ended
//	bullpen_queue_batch_callbacks_total               counter  callbacks of batches that were enqueued
//	bullpen_queue_batches_open                        gauge    batches that have not ended; the same for all programs on one store
//	bullpen_queue_in_hand                             gauge    jobs that this program is running
//	bullpen_queue_recording                           gauge    jobs that have ended and whose outcome is not yet on disk
//	bullpen_queue_lost_events_total                   counter  events that were dropped because the logger was too slow
//	bullpen_schedules                                 gauge    schedules that this program fires, without paused ones
//	bullpen_schedule_fired_total                      counter  ticks that have enqueued a job
//	bullpen_schedule_skipped_total                    counter  ticks that were skipped because the last job had not ended
//	bullpen_schedule_missed_total                     counter  ticks that passed while no program could enqueue their job
//	bullpen_schedule_failures_total                   counter  failed attempts to enqueue the job of a tick
//	bullpen_schedule_late_seconds                     histogram delay of the jobs of ticks, without missed ticks
//
// Those by queue are of the queues that the list names and of all on which the
// program has done something; beyond a thousand the rest is counted under the empty
// name, as is what is known of no queue. The outcomes are the words of [bullpen.Outcome], the priorities those of
// [queue.Priority]. The edges of the histograms are 1, 2.5 and 5 of each decade from 100
// microseconds to 100000 seconds; [bullpen.Histogram] has the same edges, so no duration is
// counted in the wrong bucket.
package queueprom

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

const (
	// patience is how long a scrape waits for the store.
	patience = time.Second
	// fresh is how long an answer of the store is used.
	fresh = time.Second
	// abreast is how many queues are asked for at a time.
	abreast = 8
)

// source is what the collector needs of a [queue.Queue].
type source interface {
	Stats() queue.Stats
	QueueStats(queue string) queue.QueueStats
	QueueNames() []string
	Depth(ctx context.Context, queue string) ([]job.Depth, error)
	Status(ctx context.Context) (queue.Status, error)
	Err() error
}

// Collector is a [prometheus.Collector] over one queue. It is safe for concurrent
// use.
type Collector struct {
	source source
	list   func() []string

	// turn has room for one: whoever put something in asks the store, and those
	// that scrape at the same time wait and share the answers.
	turn     chan struct{}
	asked    time.Time     // when the last answers came; guarded by turn
	depths   []job.Depth   // guarded by turn
	status   *queue.Status // nil where there was no answer; guarded by turn
	failures [2]uint64     // by what; guarded by turn
}

// What is asked of the store.
const (
	askDepth = iota
	askStatus
)

var _ prometheus.Collector = (*Collector)(nil)

// New makes a collector of q. It calls list at each scrape for the names of the
// queues whose depth is shown; nil shows none.
func New(q *queue.Queue, list func() []string) (*Collector, error) {
	if q == nil {
		return nil, errors.New("queueprom: the queue is nil")
	}
	return collector(q, list), nil
}

func collector(s source, list func() []string) *Collector {
	if list == nil {
		list = func() []string { return nil }
	}
	return &Collector{source: s, list: list, turn: make(chan struct{}, 1)}
}

// Describe tells which metrics there may be.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions() {
		to <- d
	}
}

// Collect reads the queue, and asks its store.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := c.source.Stats()
	collectStats(&s, to)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.list(), c.source.QueueNames())))) {
		n := c.source.QueueStats(name)
		collectQueue(name, &n, to)
	}
	one(to, failed, prometheus.GaugeValue, truth(c.source.Err() != nil))

	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.asked.IsZero() || time.Since(c.asked) >= fresh {
		c.ask()
		c.asked = time.Now()
	}
	now := time.Now()
	for i, d := range c.depths {
		collectDepth(&d, i == 0 || c.depths[i-1].Queue != d.Queue, now, to)
	}
	if c.status != nil {
		collectStatus(c.status, now, to)
	}
	one(to, askFailures, prometheus.CounterValue, float64(c.failures[askDepth]), "depth")
	one(to, askFailures, prometheus.CounterValue, float64(c.failures[askStatus]), "status")
}

// ask asks the store for everything. It waits for each goroutine that it starts;
// all of them end with ctx. The turn is the caller's.
func (c *Collector) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	names := slices.Compact(slices.Sorted(slices.Values(c.list())))
	depths := make([][]job.Depth, len(names))
	errs := make([]error, len(names))
	c.status = nil
	var all sync.WaitGroup
	all.Go(func() {
		if s, err := c.source.Status(ctx); err == nil {
			c.status = &s
		}
	})
	next := make(chan int, len(names))
	for i := range names {
		next <- i
	}
	close(next)
	for range min(abreast, len(names)) {
		all.Go(func() {
			for i := range next {
				depths[i], errs[i] = c.source.Depth(ctx, names[i])
			}
		})
	}
	all.Wait()
	c.depths = slices.Concat(depths...)
	for _, err := range errs {
		if err != nil {
			c.failures[askDepth]++
		}
	}
	if c.status == nil {
		c.failures[askStatus]++
	}
}
