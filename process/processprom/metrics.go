package processprom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// gauges, counters and histograms are the metrics that have only the label pool.
var gauges = []struct {
	desc  *prometheus.Desc
	value func(*process.Stats) int
}{
	{describe("window", "Maximum number of tasks sent to a worker at a time, now."), func(s *process.Stats) int { return s.Window }},
	{describe("queued", "Tasks that wait in the pool."), func(s *process.Stats) int { return s.Queued }},
	{describe("blocked_callers", "Callers that wait for room in the queue of the pool."), func(s *process.Stats) int { return s.Blocked }},
	{describe("in_hand", "Tasks that are with workers."), func(s *process.Stats) int { return s.InHand }},
}

var counters = []struct {
	desc  *prometheus.Desc
	value func(*process.Stats) uint64
}{
	{describe("accepted_total", "Tasks that were accepted."), func(s *process.Stats) uint64 { return s.Accepted }},
	{describe("refused_total", "Tasks that were not accepted."), func(s *process.Stats) uint64 { return s.Refused }},
	{describe("replayed_total", "Tasks that were taken back from a worker that had not started them."), func(s *process.Stats) uint64 { return s.Replayed }},
	{describe("worker_starts_total", "Worker processes that were started."), func(s *process.Stats) uint64 { return s.Started }},
	{describe("worker_start_failures_total", "Worker processes that did not become ready."), func(s *process.Stats) uint64 { return s.FailedStarts }},
	{describe("lost_log_lines_total", "Lines of workers that were dropped because the logger was too slow."), func(s *process.Stats) uint64 { return s.LostLogLines }},
	{describe("limited_log_lines_total", "Lines of workers that were dropped because of Config.LogRate."), func(s *process.Stats) uint64 { return s.LimitedLogLines }},
}

var histograms = []struct {
	desc  *prometheus.Desc
	value func(*process.Stats) *bullpen.Histogram
}{
	{describe("task_blocked_seconds", "Time from Submit to acceptance, for tasks that had to wait for room in the queue."), func(s *process.Stats) *bullpen.Histogram { return &s.BlockedTime }},
	{describe("task_queue_seconds", "Time from acceptance to sending the task to a worker."), func(s *process.Stats) *bullpen.Histogram { return &s.QueueTime }},
	{describe("task_run_seconds", "Run time of the handler, by the worker's clock."), func(s *process.Stats) *bullpen.Histogram { return &s.RunTime }},
	{describe("task_return_seconds", "Time between sending a task and its outcome, without the run time of the handler."), func(s *process.Stats) *bullpen.Histogram { return &s.ReturnTime }},
	{describe("worker_start_seconds", "Time from the start of a worker until it is ready."), func(s *process.Stats) *bullpen.Histogram { return &s.StartTime }},
}

var (
	state      = describe("state", "1 for the state that the pool is in, 0 for the others.", "state")
	workers    = describe("workers", "Worker processes by state.", "state")
	workersMin = describe("workers_min", "Minimum number of workers.")
	workersMax = describe("workers_max", "Maximum number of workers.")
	tasks      = describe("tasks_total", "Tasks that have ended, by outcome.", "outcome")
	memory     = describe("memory_bytes", "Resident memory of all workers; shared pages count for each worker.")
	stops      = describe("worker_stops_total", "Workers that ended as planned, by cause.", "cause")
	deaths     = describe("worker_deaths_total", "Workers that ended unexpectedly, by cause.", "cause")
)

// budgetGauges, budgetCounters and budgetWait are the metrics of a budget.
var budgetGauges = []struct {
	desc  *prometheus.Desc
	value func(*process.BudgetStats, *process.BudgetConfig) float64
}{
	{describeBudget("pools", "Pools that share the budget."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return float64(s.Pools) }},
	{describeBudget("workers", "Worker processes that count in the budget."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return float64(s.Workers) }},
	{describeBudget("workers_promised", "Workers that are reserved for the minima of pools."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return float64(s.Promised) }},
	{describeBudget("workers_limit", "Maximum number of workers, 0 for no limit."), func(_ *process.BudgetStats, c *process.BudgetConfig) float64 { return float64(c.Workers) }},
	{describeBudget("memory_bytes", "Memory that workers count as using."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return float64(s.Memory) }},
	{describeBudget("memory_promised_bytes", "Memory that is reserved for the minima of pools."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return float64(s.PromisedMemory) }},
	{describeBudget("memory_limit_bytes", "Maximum memory, 0 for no limit."), func(_ *process.BudgetStats, c *process.BudgetConfig) float64 { return float64(c.Memory) }},
	{describeBudget("waiting_pools", "Pools that wait for room for a worker."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return float64(s.Waiting) }},
	{describeBudget("longest_wait_seconds", "Time that the first waiting pool has waited."), func(s *process.BudgetStats, _ *process.BudgetConfig) float64 { return s.Longest.Seconds() }},
}

var budgetCounters = []struct {
	desc  *prometheus.Desc
	value func(*process.BudgetStats) uint64
}{
	{describeBudget("starts_total", "Workers that got room."), func(s *process.BudgetStats) uint64 { return s.Started }},
	{describeBudget("reclaimed_workers_total", "Idle workers that ended to make room for other pools."), func(s *process.BudgetStats) uint64 { return s.Reclaimed }},
	{describeBudget("pressed_workers_total", "Busy workers that ended after their task to make room for other pools."), func(s *process.BudgetStats) uint64 { return s.Pressed }},
}

var budgetWait = describeBudget("wait_seconds", "Time that worker starts waited for room, for those that had to.")

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bullpen_process_"+name, help, append([]string{"pool"}, labels...), nil)
}

func describeBudget(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("bullpen_process_budget_"+name, help, []string{"budget"}, nil)
}

// descriptions returns the descriptions of all metrics.
func descriptions() []*prometheus.Desc {
	all := []*prometheus.Desc{state, workers, workersMin, workersMax, memory, tasks, stops, deaths, budgetWait}
	for _, g := range gauges {
		all = append(all, g.desc)
	}
	for _, n := range counters {
		all = append(all, n.desc)
	}
	for _, h := range histograms {
		all = append(all, h.desc)
	}
	for _, g := range budgetGauges {
		all = append(all, g.desc)
	}
	for _, n := range budgetCounters {
		all = append(all, n.desc)
	}
	return all
}

// neverStarted is the value of the label outcome for accepted tasks that ended without
// being started, in addition to the names of bullpen.Outcome.
const neverStarted = "never_started"

// planned and unplanned are the causes of stops and deaths. Their series start at 0, so
// that a rate includes the first one.
var planned = []process.Cause{
	process.ByIdle, process.ByTasks, process.ByAge, process.ByMemory, process.ByReload, process.ByResize, process.ByEnd,
	process.ByItself, process.ByBudget,
}

var unplanned = []process.Cause{
	process.ByExit, process.BySignal, process.ByTimeout, process.ByCancel, process.ByProtocol, process.BySilence, process.ByBound,
}

func collect(name string, minimum, maximum int, s *process.Stats, to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{name}, labels...)...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{name}, labels...)...)
	}
	for _, each := range process.PoolStates() {
		is := 0
		if each == s.State {
			is = 1
		}
		gauge(state, is, each.String())
	}
	gauge(workers, s.Starting, process.WorkerStarting.String())
	gauge(workers, s.Idle, process.WorkerIdle.String())
	gauge(workers, s.Busy, process.WorkerBusy.String())
	gauge(workers, s.Leaving, process.WorkerLeaving.String())
	gauge(workersMin, minimum)
	gauge(workersMax, maximum)
	for _, g := range gauges {
		gauge(g.desc, g.value(s))
	}
	for _, n := range counters {
		count(n.desc, n.value(s))
	}
	for _, o := range bullpen.Outcomes() {
		count(tasks, s.Outcomes[o], o.String())
	}
	count(tasks, s.NeverStarted, neverStarted)
	byCause := func(d *prometheus.Desc, usual []process.Cause, counts map[process.Cause]uint64) {
		for _, cause := range usual {
			count(d, counts[cause], cause.String())
		}
		for cause, n := range counts {
			if !slices.Contains(usual, cause) { // killed while leaving, or an Exec process
				count(d, n, cause.String())
			}
		}
	}
	byCause(stops, planned, s.Stops)
	byCause(deaths, unplanned, s.Deaths)
	for _, h := range histograms {
		to <- histogram(h.desc, h.value(s), name)
	}
}

func (b *budget) collect(s *process.BudgetStats, to chan<- prometheus.Metric) {
	for _, g := range budgetGauges {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(s, &b.config), b.name)
	}
	for _, n := range budgetCounters {
		to <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.value(s)), b.name)
	}
	to <- histogram(budgetWait, &s.Wait, b.name)
}
