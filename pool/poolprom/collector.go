// Package poolprom exports metrics of goroutine pools (package pool) to Prometheus.
//
//	c, err := poolprom.New(images, mail) // pools
//	if err != nil { … }
//	prometheus.MustRegister(c)
//
// A [Collector] reads [pool.Pool.Stats] at each scrape. Between scrapes it costs nothing,
// and it never slows tasks. A program that does not import this package does not link the
// metrics library.
//
// # Metrics
//
//	bullpen_pool_state{pool,state}                  gauge      1 for the state that the pool is in
//	bullpen_pool_workers{pool,state}                gauge      busy, parked, searching
//	bullpen_pool_workers_min{pool}                  gauge      bounds of their number
//	bullpen_pool_workers_max{pool}                  gauge
//	bullpen_pool_callers_running{pool}              gauge      tasks that callers run themselves
//	bullpen_pool_stuck{pool}                        gauge      bodies that keep running after their tasks were answered
//	bullpen_pool_nesting{pool}                      gauge      tasks that have submitted to their own pool
//	bullpen_pool_queued{pool}                       gauge      tasks that wait
//	bullpen_pool_delayed{pool}                      gauge      tasks among them whose delay has not passed
//	bullpen_pool_blocked_callers{pool}              gauge      callers that wait for room in a queue
//	bullpen_pool_tasks_total{pool,task,outcome}     counter    tasks that have ended, including outcome="never_started"
//	bullpen_pool_refused_total{pool}                counter    tasks that were not accepted
//	bullpen_pool_overruns_total{pool}               counter    tasks answered while their bodies kept running
//	bullpen_pool_late_returns_total{pool}           counter    such bodies that have returned
//	bullpen_pool_helped_total{pool}                 counter    tasks that callers ran
//	bullpen_pool_lost_log_lines_total{pool}         counter    events dropped because the logger was too slow
//	bullpen_pool_task_wait_seconds{pool,task}       histogram  from acceptance to start
//	bullpen_pool_task_run_seconds{pool,task}        histogram  run time of the body
//	bullpen_pool_lane_running{pool,lane}            gauge      bodies of a lane that have not returned
//	bullpen_pool_lane_limit{pool,lane}              gauge      maximum of these, 0 for the number of workers
//	bullpen_pool_lane_queued{pool,lane}             gauge      tasks that wait in the lane
//	bullpen_pool_lane_blocked_callers{pool,lane}    gauge      callers that wait for room in its queue
//	bullpen_pool_lane_started_total{pool,lane}      counter    tasks of the lane that were given to a worker
//	bullpen_pool_lane_refused_total{pool,lane}      counter    tasks that the lane did not accept
//
// The outcomes are the words of [bullpen.Outcome]. The edges of the histograms are
// 1, 2.5 and 5 of each decade from a microsecond to 100 seconds; [bullpen.Histogram] has
// the same edges, so no duration is counted in the wrong bucket. Tasks
// of less than about five microseconds are measured by sample: use
// bullpen_pool_tasks_total for rates.
//
// # The four metrics of the Go worker-pool article
//
//	wp_worker_process_count_vec{type}               bullpen_pool_workers{pool,state="busy"}
//	wp_task_queue_buffer_len_vec{type}              bullpen_pool_queued{pool}
//	wp_add_task_wait_count_vec{type}                bullpen_pool_blocked_callers{pool}
//	wp_task_process_duration_ms_by_name{type,name}  bullpen_pool_task_run_seconds{pool,task}, in seconds
package poolprom

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
)

// Collector is a [prometheus.Collector] for pools. It is safe for concurrent use.
type Collector struct {
	mu    sync.Mutex
	pools []*pool.Pool // guarded by mu
}

var _ prometheus.Collector = (*Collector)(nil)

// New makes a collector for the pools. It returns an error for pools that [Collector.Add]
// refuses.
func New(pools ...*pool.Pool) (*Collector, error) {
	c := &Collector{}
	var errs []error
	for _, p := range pools {
		errs = append(errs, c.Add(p))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// Add adds a pool to the collector. It refuses nil and a pool with the name of another one,
// because their series would be the same.
func (c *Collector) Add(p *pool.Pool) error {
	if p == nil {
		return errors.New("poolprom: the pool is nil")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.pools {
		if other.Name() == p.Name() {
			return fmt.Errorf("poolprom: there is already a pool %q: give each pool its own Name, or Remove the other one", p.Name())
		}
	}
	c.pools = append(c.pools, p)
	return nil
}

// Remove removes a pool from the collector. A pool that has ended is still collected until
// it is removed.
func (c *Collector) Remove(p *pool.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools = slices.DeleteFunc(c.pools, func(other *pool.Pool) bool { return other == p })
}

// gauges and counters are the series with no label other than the pool.
var gauges = []struct {
	desc  *prometheus.Desc
	value func(*pool.Stats) int
}{
	{describe("workers_min", "Minimum number of workers."), func(s *pool.Stats) int { return s.Min }},
	{describe("workers_max", "Maximum number of workers that run tasks at a time."), func(s *pool.Stats) int { return s.Max }},
	{describe("callers_running", "Callers that run tasks in their own goroutines."), func(s *pool.Stats) int { return s.Callers }},
	{describe("stuck", "Bodies that still run although their tasks were answered."), func(s *pool.Stats) int { return s.Stuck }},
	{describe("nesting", "Tasks that have submitted work to their own pool."), func(s *pool.Stats) int { return s.Nesting }},
	{describe("queued", "Tasks that wait."), func(s *pool.Stats) int { return s.Queued }},
	{describe("delayed", "Tasks that wait for their time."), func(s *pool.Stats) int { return s.Delayed }},
	{describe("blocked_callers", "Callers that wait for room in a queue."), func(s *pool.Stats) int { return s.Blocked }},
}

var counters = []struct {
	desc  *prometheus.Desc
	value func(*pool.Stats) uint64
}{
	{describe("refused_total", "Tasks that were not accepted."), func(s *pool.Stats) uint64 { return s.Refused }},
	{describe("overruns_total", "Tasks that were answered while their bodies kept running."), func(s *pool.Stats) uint64 { return s.Overruns }},
	{describe("late_returns_total", "Bodies that have returned after their tasks were answered."), func(s *pool.Stats) uint64 { return s.Late }},
	{describe("helped_total", "Tasks that callers ran."), func(s *pool.Stats) uint64 { return s.Helped }},
	{describe("lost_log_lines_total", "Log lines that were dropped because the logger was too slow."), func(s *pool.Stats) uint64 { return s.LostLogLines }},
}

// laneGauges and laneCounters are the series of a lane.
var laneGauges = []struct {
	desc  *prometheus.Desc
	value func(*pool.LaneStats) int
}{
	{describe("lane_running", "Bodies of the lane that have not returned.", "lane"), func(s *pool.LaneStats) int { return s.Running }},
	{describe("lane_limit", "Maximum number of bodies of the lane at a time, 0 for the number of workers.", "lane"), func(s *pool.LaneStats) int { return s.Limit }},
	{describe("lane_queued", "Tasks that wait in the lane.", "lane"), func(s *pool.LaneStats) int { return s.Queued }},
	{describe("lane_blocked_callers", "Callers that wait for room in the queue of the lane.", "lane"), func(s *pool.LaneStats) int { return s.Blocked }},
}

var laneCounters = []struct {
	desc  *prometheus.Desc
	value func(*pool.LaneStats) uint64
}{
	{describe("lane_started_total", "Tasks of the lane that were given to a worker.", "lane"), func(s *pool.LaneStats) uint64 { return s.Started }},
	{describe("lane_refused_total", "Tasks that the lane did not accept.", "lane"), func(s *pool.LaneStats) uint64 { return s.Refused }},
}

var (
	state   = describe("state", "1 for the state that the pool is in, 0 for the others.", "state")
	workers = describe("workers", "Workers by what they do.", "state")
	tasks   = describe("tasks_total", "Tasks that have ended, by outcome.", "task", "outcome")
	wait    = describe("task_wait_seconds", "Time from the acceptance of a task to its start.", "task")
	run     = describe("task_run_seconds", "Time that the body of a task ran.", "task")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bullpen_pool_"+name, help, append([]string{"pool"}, labels...), nil)
}

// neverStarted is the outcome of a task that was accepted and ended without being started.
// It is not among the outcomes of package bullpen.
const neverStarted = "never_started"

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{state, workers, tasks, wait, run} {
		to <- d
	}
	for _, g := range gauges {
		to <- g.desc
	}
	for _, n := range counters {
		to <- n.desc
	}
	for _, g := range laneGauges {
		to <- g.desc
	}
	for _, n := range laneCounters {
		to <- n.desc
	}
}

// Collect reads the pools and sends their metrics.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	pools := slices.Clone(c.pools)
	c.mu.Unlock()
	for _, p := range pools {
		collect(p.Name(), p.Stats(), to)
	}
}

func collect(name string, s pool.Stats, to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{name}, labels...)...)
	}
	for _, each := range pool.PoolStates() {
		is := 0
		if each == s.State {
			is = 1
		}
		gauge(state, is, each.String())
	}
	gauge(workers, s.Busy, pool.WorkerBusy.String())
	gauge(workers, s.Idle, pool.WorkerParked.String())
	gauge(workers, s.Searching, pool.WorkerSearching.String())
	for _, g := range gauges {
		gauge(g.desc, g.value(&s))
	}
	for _, n := range counters {
		to <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.value(&s)), name)
	}
	for task, t := range s.Tasks {
		collectTask(name, task, &t, to)
	}
	for _, l := range s.Lanes {
		for _, g := range laneGauges {
			gauge(g.desc, g.value(&l), l.Name)
		}
		for _, n := range laneCounters {
			to <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.value(&l)), name, l.Name)
		}
	}
}

func collectTask(name, task string, t *pool.TaskStats, to chan<- prometheus.Metric) {
	count := func(outcome string, n uint64) {
		to <- prometheus.MustNewConstMetric(tasks, prometheus.CounterValue, float64(n), name, task, outcome)
	}
	for _, o := range bullpen.Outcomes() {
		if n := t.Outcomes[o]; n > 0 || possible(o) {
			count(o.String(), n)
		}
	}
	count(neverStarted, t.NeverStarted)
	to <- histogram(wait, &t.Wait, name, task)
	to <- histogram(run, &t.Run, name, task)
}

// possible reports whether a goroutine pool can give outcome o. Its series then starts at
// 0, so that a rate includes the first one.
func possible(o bullpen.Outcome) bool {
	switch o {
	case bullpen.OK, bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Canceled, bullpen.Output:
		return true
	case bullpen.Crashed, bullpen.Memory, bullpen.Protocol, bullpen.Lost:
		return false
	}
	return false
}
