package queueprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// counter is one number that only grows.
type counter[S any] struct {
	desc  *prometheus.Desc
	value func(*S) uint64
}

// byQueue are what this program has done on each queue, counters what it has done
// on none in particular.
var byQueue = []counter[queue.QueueStats]{
	{describe("queue_enqueued_total", "Jobs that this program enqueued.", "queue"), func(s *queue.QueueStats) uint64 { return s.Enqueued }},
	{describe("queue_duplicates_total", "Jobs that had the key of an existing job.", "queue"), func(s *queue.QueueStats) uint64 { return s.Duplicates }},
	{describe("queue_refused_total", "Jobs that were refused because the queue was full.", "queue"), func(s *queue.QueueStats) uint64 { return s.Refused }},
	{describe("queue_taken_total", "Jobs that this program received.", "queue"), func(s *queue.QueueStats) uint64 { return s.Taken }},
	{describe("queue_redelivered_total", "Jobs that this program took over from a program that died.", "queue"), func(s *queue.QueueStats) uint64 { return s.Redelivered }},
	{describe("queue_retried_total", "Attempts that were followed by another one.", "queue"), func(s *queue.QueueStats) uint64 { return s.Retried }},
	{describe("queue_gave_back_total", "Jobs that were given back before they started.", "queue"), func(s *queue.QueueStats) uint64 { return s.GaveBack }},
	{describe("queue_dead_total", "Jobs that failed for good.", "queue"), func(s *queue.QueueStats) uint64 { return s.Dead }},
	{describe("queue_quarantined_total", "Jobs that killed too many workers or programs.", "queue"), func(s *queue.QueueStats) uint64 { return s.Quarantined }},
}

var counters = []counter[queue.Stats]{
	{describe("queue_damaged_total", "Stored records with a wrong checksum."), func(s *queue.Stats) uint64 { return s.Damaged }},
	{describe("queue_missing_total", "Members of batches that were neither in the queue nor had a known outcome."), func(s *queue.Stats) uint64 { return s.Missing }},
	{describe("queue_batches_total", "Batches that this program has opened."), func(s *queue.Stats) uint64 { return s.Batches }},
	{describe("queue_batches_ended_total", "Batches that this program has ended."), func(s *queue.Stats) uint64 { return s.BatchesEnded }},
	{describe("queue_batch_callbacks_total", "Callbacks of batches that this program has enqueued."), func(s *queue.Stats) uint64 { return s.Callbacks }},
	{describe("queue_lost_events_total", "Events that were dropped because the logger was too slow."), func(s *queue.Stats) uint64 { return s.EventsLost }},
	{describe("schedule_fired_total", "Ticks of schedules that have enqueued a job."), func(s *queue.Stats) uint64 { return s.Schedules.Fired }},
	{describe("schedule_skipped_total", "Ticks of schedules that were skipped because the last job had not ended."), func(s *queue.Stats) uint64 { return s.Schedules.Skipped }},
	{describe("schedule_missed_total", "Ticks of schedules that passed while no program could enqueue their job."), func(s *queue.Stats) uint64 { return s.Schedules.Missed }},
	{describe("schedule_failures_total", "Failed attempts to enqueue the job of a tick."), func(s *queue.Stats) uint64 { return s.Schedules.Failed }},
}

var (
	ended     = describe("queue_ended_total", "Outcomes that this program has recorded.", "queue", "outcome")
	waits     = describe("queue_wait_seconds", "Time from when a job could start until the pool got it.", "queue")
	runs      = describe("queue_run_seconds", "Run time of attempts.", "queue")
	inHand    = describe("queue_in_hand", "Jobs that this program is running.")
	schedules = describe("schedules", "Schedules that this program fires, without those that are paused.")
	late      = describe("schedule_late_seconds", "Delay of the jobs of ticks, without missed ticks.")
	recording = describe("queue_recording", "Jobs that have ended and whose outcome is not yet on disk.")

	batches = describe("queue_batches_open", "Batches that have not ended, on this store.")

	waiting = describe("queue_jobs_waiting", "Jobs that can start.", "queue", "priority")
	held    = describe("queue_jobs_held", "Jobs that could start but for the limits of their groups.", "queue", "priority")
	taken   = describe("queue_jobs_taken", "Jobs that programs are running, or that wait a short time for another attempt.", "queue", "priority")
	oldest  = describe("queue_oldest_age_seconds", "Age of the oldest job in the queue, 0 for none.", "queue", "priority")
	paused  = describe("queue_paused", "1 while the queue is paused, else 0.", "queue")

	info        = describe("store_info", "1 for the kind of store.", "kind")
	failed      = describe("store_failed", "1 if the store has failed and needs a restart, else 0.")
	replicas    = describe("store_replicas", "Number of servers that hold a copy of each job.")
	messages    = describe("store_messages", "Messages that a stream of the store holds.", "stream")
	bytes       = describe("store_bytes", "Size of a stream of the store.", "stream")
	deadOldest  = describe("store_dead_oldest_age_seconds", "Age of the oldest dead job, 0 for none.")
	deadAge     = describe("store_dead_limit_age_seconds", "Maximum time that dead jobs are kept.")
	syncs       = describe("store_syncs_total", "Syncs of the disk, where this program runs the store.")
	confirms    = describe("store_confirms_total", "Writes that syncs of the disk have confirmed.")
	syncTime    = describe("store_sync_seconds", "Time that the last 1024 syncs of the disk took.", "statistic")
	askFailures = describe("store_ask_failures_total", "Requests to the store that were not answered.", "what")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bullpen_"+name, help, labels, nil)
}

// descriptions are all metrics.
func descriptions() []*prometheus.Desc {
	all := []*prometheus.Desc{
		ended, waits, runs, inHand, recording, schedules, late, batches, waiting, held, taken, oldest, paused,
		info, failed, replicas, messages, bytes, deadOldest, deadAge, syncs, confirms, syncTime, askFailures,
	}
	for _, n := range counters {
		all = append(all, n.desc)
	}
	for _, n := range byQueue {
		all = append(all, n.desc)
	}
	return all
}

// one hands a single value over.
func one(to chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
}

// truth is 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func collectStats(s *queue.Stats, to chan<- prometheus.Metric) {
	for _, n := range counters {
		one(to, n.desc, prometheus.CounterValue, float64(n.value(s)))
	}
	one(to, inHand, prometheus.GaugeValue, float64(s.InHand))
	one(to, recording, prometheus.GaugeValue, float64(s.Recording))
	one(to, schedules, prometheus.GaugeValue, float64(s.Schedules.Known))
	to <- histogram(late, &s.Schedules.Late)
	one(to, batches, prometheus.GaugeValue, float64(s.BatchesOpen))
}

// collectQueue shows what was done on one queue.
func collectQueue(name string, s *queue.QueueStats, to chan<- prometheus.Metric) {
	for _, n := range byQueue {
		one(to, n.desc, prometheus.CounterValue, float64(n.value(s)), name)
	}
	for o := bullpen.OK; o <= bullpen.Lost; o++ { // all, so that a rate sees the first one
		one(to, ended, prometheus.CounterValue, float64(s.Ended[o]), name, o.String())
	}
	to <- histogram(waits, &s.Wait, name)
	to <- histogram(runs, &s.Run, name)
}

// collectDepth shows one priority of a queue, and what is said of the queue as a
// whole with the first.
func collectDepth(d *job.Depth, first bool, now time.Time, to chan<- prometheus.Metric) {
	priority := d.Priority.String()
	one(to, waiting, prometheus.GaugeValue, float64(d.Waiting), d.Queue, priority)
	one(to, held, prometheus.GaugeValue, float64(d.Held), d.Queue, priority)
	one(to, taken, prometheus.GaugeValue, float64(d.Taken), d.Queue, priority)
	age := 0.0
	if !d.Oldest.IsZero() {
		age = max(0, now.Sub(d.Oldest).Seconds()) // clocks may differ
	}
	one(to, oldest, prometheus.GaugeValue, age, d.Queue, priority)
	if first {
		one(to, paused, prometheus.GaugeValue, truth(d.Paused), d.Queue)
	}
}

func collectStatus(s *queue.Status, now time.Time, to chan<- prometheus.Metric) {
	one(to, info, prometheus.GaugeValue, 1, s.Kind)
	one(to, replicas, prometheus.GaugeValue, float64(s.Replicas))
	for stream, u := range map[string]queue.Usage{"jobs": s.Jobs, "outcomes": s.Outcomes, "state": s.State, "dead": s.Dead} {
		one(to, messages, prometheus.GaugeValue, float64(u.Messages), stream)
		one(to, bytes, prometheus.GaugeValue, float64(u.Bytes), stream)
	}
	one(to, deadAge, prometheus.GaugeValue, s.DeadKept.MaxAge.Seconds())
	age := 0.0
	if !s.DeadKept.Oldest.IsZero() {
		age = max(0, now.Sub(s.DeadKept.Oldest).Seconds())
	}
	one(to, deadOldest, prometheus.GaugeValue, age)
	if s.Sync == (queue.Sync{}) {
		return // the store runs elsewhere, or needs no disk
	}
	one(to, syncs, prometheus.CounterValue, float64(s.Sync.Syncs))
	one(to, confirms, prometheus.CounterValue, float64(s.Sync.Confirms))
	for statistic, d := range map[string]time.Duration{"p50": s.Sync.P50, "p99": s.Sync.P99, "max": s.Sync.Max, "last": s.Sync.Last} {
		one(to, syncTime, prometheus.GaugeValue, d.Seconds(), statistic)
	}
}
