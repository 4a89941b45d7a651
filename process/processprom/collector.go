// Package processprom exports metrics of pools of worker processes (package process) to
// Prometheus.
//
//	c, err := processprom.New(thumbnails, mail) // pools
//	if err != nil { … }
//	prometheus.MustRegister(c)
//
// A [Collector] reads [process.Pool.Stats] when it is scraped. Between scrapes it costs
// nothing, and it never slows tasks. A program that does not import this package does
// not link the metrics library.
//
// # Metrics
//
//	bullpen_process_state{pool,state}                gauge      1 for the state that the pool is in
//	bullpen_process_workers{pool,state}              gauge      starting, idle, busy, leaving
//	bullpen_process_workers_min{pool}                gauge      minimum number of workers
//	bullpen_process_workers_max{pool}                gauge      maximum number of workers
//	bullpen_process_window{pool}                     gauge      maximum number of tasks sent to a worker at a time, now
//	bullpen_process_queued{pool}                     gauge      tasks that wait in the pool
//	bullpen_process_blocked_callers{pool}            gauge      callers that wait for room in its queue
//	bullpen_process_in_hand{pool}                    gauge      tasks that are with workers
//	bullpen_process_accepted_total{pool}             counter    tasks that were accepted
//	bullpen_process_tasks_total{pool,outcome}        counter    tasks that have ended, including outcome="never_started"
//	bullpen_process_refused_total{pool}              counter    tasks that were not accepted
//	bullpen_process_replayed_total{pool}             counter    tasks taken back from a worker that had not started them
//	bullpen_process_worker_starts_total{pool}        counter    processes that were started
//	bullpen_process_memory_bytes{pool}               gauge      resident memory of all workers; shared pages count for each worker
//	bullpen_process_worker_stops_total{pool,cause}   counter    workers that ended as planned: recycled, idle or stopped
//	bullpen_process_worker_deaths_total{pool,cause}  counter    workers that ended unexpectedly
//	bullpen_process_worker_start_failures_total{pool}  counter    processes that did not become ready
//	bullpen_process_lost_log_lines_total{pool}       counter    lines of workers that were dropped because the logger was too slow
//	bullpen_process_limited_log_lines_total{pool}    counter    lines of workers that were dropped because of Config.LogRate
//	bullpen_process_task_blocked_seconds{pool}       histogram  from Submit to acceptance, for tasks that had to wait for room in the queue
//	bullpen_process_task_queue_seconds{pool}         histogram  from acceptance to sending the task to a worker
//	bullpen_process_task_run_seconds{pool}           histogram  run time of the handler, by the worker's clock
//	bullpen_process_task_return_seconds{pool}        histogram  between sending a task and its outcome, without the run time of the handler
//	bullpen_process_worker_start_seconds{pool}       histogram  from the start of a worker until it is ready
//
// For a budget that was passed to [Collector.AddBudget]:
//
//	bullpen_process_budget_pools{budget}                     gauge      pools that share the budget
//	bullpen_process_budget_workers{budget}                   gauge      processes that count in the budget
//	bullpen_process_budget_workers_promised{budget}          gauge      workers that are reserved for the minima of pools
//	bullpen_process_budget_workers_limit{budget}             gauge      maximum number of workers, 0 for no limit
//	bullpen_process_budget_memory_bytes{budget}              gauge      memory that workers count as using
//	bullpen_process_budget_memory_promised_bytes{budget}     gauge      memory that is reserved for the minima of pools
//	bullpen_process_budget_memory_limit_bytes{budget}        gauge      maximum memory, 0 for no limit
//	bullpen_process_budget_waiting_pools{budget}             gauge      pools that wait for room for a worker
//	bullpen_process_budget_longest_wait_seconds{budget}      gauge      time that the first of them has waited
//	bullpen_process_budget_starts_total{budget}              counter    workers that got room
//	bullpen_process_budget_reclaimed_workers_total{budget}   counter    idle workers that ended to make room for other pools
//	bullpen_process_budget_pressed_workers_total{budget}     counter    busy workers that ended after their task to make room for other pools
//	bullpen_process_budget_wait_seconds{budget}              histogram  time that worker starts waited for room, for those that had to
//
// The outcomes are the words of [bullpen.Outcome], the causes those of
// [process.Cause], the states those of [process.State] and [process.WorkerState].
// The edges of the histograms are 1, 2.5 and 5 of each decade from a microsecond to
// 100 seconds; [bullpen.Histogram] has the same edges, so no duration is counted in the
// wrong bucket.
package processprom

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen/process"
)

// Collector is a [prometheus.Collector] for pools and budgets. It is safe for
// concurrent use.
type Collector struct {
	mu      sync.Mutex
	series  []*series // guarded by mu
	budgets []budget  // guarded by mu
}

// series is what is exported under one name: a pool and those that it has replaced.
type series struct {
	name string
	pool *process.Pool
	old  []*process.Pool // replaced pools that have not ended yet
	past process.Stats   // the counts of replaced pools that have ended
}

// budget is a budget with its name and bounds.
type budget struct {
	name   string
	budget *process.Budget
	config process.BudgetConfig
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector of the pools. It fails if [Collector.Add] refuses one of
// them.
func New(pools ...*process.Pool) (*Collector, error) {
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

// Add adds a pool. It refuses nil, and a pool with the name of another one, because
// their series would be the same; see [Collector.Replace].
func (c *Collector) Add(p *process.Pool) error {
	if p == nil {
		return errors.New("processprom: the pool is nil")
	}
	name := p.Config().Name
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(name) != nil {
		return fmt.Errorf("processprom: there is already a pool %q: give each pool its own Name, or Replace the other one", name)
	}
	c.series = append(c.series, &series{name: name, pool: p})
	return nil
}

// Replace puts p in the place of the pool with the same name. Counters continue from
// their current values, and the tasks of the replaced pool are exported with those of p
// until it has ended. If there is no pool with that name, Replace adds p.
func (c *Collector) Replace(p *process.Pool) error {
	if p == nil {
		return errors.New("processprom: the pool is nil")
	}
	name := p.Config().Name
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(name)
	switch {
	case s == nil:
		c.series = append(c.series, &series{name: name, pool: p})
	case s.pool != p:
		s.old = slices.DeleteFunc(append(s.old, s.pool), func(other *process.Pool) bool { return other == p })
		s.pool = p
	}
	return nil
}

// Remove removes a pool and the pools that it replaced. A pool that has ended is
// exported until it is removed.
func (c *Collector) Remove(p *process.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series = slices.DeleteFunc(c.series, func(s *series) bool { return s.pool == p })
}

// AddBudget adds a budget under a name, with the bounds that it was created with. It
// refuses nil, and a name that is in use.
func (c *Collector) AddBudget(name string, b *process.Budget, bounds process.BudgetConfig) error {
	if b == nil {
		return errors.New("processprom: the budget is nil")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.budgets {
		if other.name == name {
			return fmt.Errorf("processprom: there is already a budget %q: use another name, or RemoveBudget the other one", name)
		}
	}
	c.budgets = append(c.budgets, budget{name, b, bounds})
	return nil
}

// RemoveBudget removes a budget.
func (c *Collector) RemoveBudget(b *process.Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budgets = slices.DeleteFunc(c.budgets, func(other budget) bool { return other.budget == b })
}

// find returns the series of a name, or nil. mu is held.
func (c *Collector) find(name string) *series {
	for _, s := range c.series {
		if s.name == name {
			return s
		}
	}
	return nil
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions() {
		to <- d
	}
}

// Collect reads the pools and budgets and sends their metrics.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.series {
		bounds := s.pool.Config()
		stats := s.stats()
		collect(s.name, bounds.Min, bounds.Max, &stats, to)
		bytes, measured := s.memory()
		if measured > 0 || stats.Idle+stats.Busy == 0 { // else the system does not report it
			to <- prometheus.MustNewConstMetric(memory, prometheus.GaugeValue, float64(bytes), s.name)
		}
	}
	for _, b := range c.budgets {
		stats := b.budget.Stats()
		b.collect(&stats, to)
	}
}

// memory adds up the memory of the pools of one name. Collector.mu is held.
func (s *series) memory() (bytes int64, measured int) {
	bytes, measured = s.pool.Memory()
	for _, p := range s.old {
		b, n := p.Memory()
		bytes, measured = bytes+b, measured+n
	}
	return bytes, measured
}

// stats adds up the statistics of the pools of one name. The counts of ended pools no
// longer change, so these pools are dropped. Collector.mu is held.
func (s *series) stats() process.Stats {
	sum := s.pool.Stats() // its map is our own
	s.old = slices.DeleteFunc(s.old, func(p *process.Pool) bool {
		stats := p.Stats()
		if stats.State == process.Closed {
			add(&s.past, &stats)
			return true
		}
		add(&sum, &stats)
		return false
	})
	add(&sum, &s.past)
	return sum
}

// add adds the counts of one pool to those of another.
func add(sum, s *process.Stats) {
	sum.Queued += s.Queued
	sum.Blocked += s.Blocked
	sum.InHand += s.InHand
	sum.Starting += s.Starting
	sum.Idle += s.Idle
	sum.Busy += s.Busy
	sum.Leaving += s.Leaving
	sum.Accepted += s.Accepted
	addCounts(&sum.Outcomes, s.Outcomes)
	sum.NeverStarted += s.NeverStarted
	sum.Refused += s.Refused
	sum.Replayed += s.Replayed
	sum.Started += s.Started
	sum.Stopped += s.Stopped
	sum.FailedStarts += s.FailedStarts
	sum.LostLogLines += s.LostLogLines
	sum.LimitedLogLines += s.LimitedLogLines
	addCounts(&sum.Stops, s.Stops)
	addCounts(&sum.Deaths, s.Deaths)
	sum.BlockedTime = sum.BlockedTime.Plus(&s.BlockedTime)
	sum.QueueTime = sum.QueueTime.Plus(&s.QueueTime)
	sum.RunTime = sum.RunTime.Plus(&s.RunTime)
	sum.ReturnTime = sum.ReturnTime.Plus(&s.ReturnTime)
	sum.StartTime = sum.StartTime.Plus(&s.StartTime)
}

func addCounts[K comparable](sum *map[K]uint64, counts map[K]uint64) {
	if *sum == nil {
		*sum = make(map[K]uint64, len(counts))
	}
	for cause, n := range counts {
		(*sum)[cause] += n
	}
}
