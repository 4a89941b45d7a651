//go:build unix

package processprom

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/process"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t *testing.T, c process.Config) *process.Pool {
	t.Helper()
	if c.Command == nil {
		c.Command, c.Protocol = []string{"cat"}, process.Lines
	}
	p, err := process.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func collector(t *testing.T, pools ...*process.Pool) *Collector {
	t.Helper()
	c, err := New(pools...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs one task.
func run(t *testing.T, p *process.Pool, payload string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := p.Execute(ctx, bullpen.Task{Payload: []byte(payload)})
	return err
}

// TestNamesAreConventional asks the linter of the metrics library.
func TestNamesAreConventional(t *testing.T) {
	t.Parallel()
	c := collector(t, open(t, process.Config{Name: "a"}), open(t, process.Config{Name: "b"}))
	addBudgets(t, c, "one", "two")
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

func addBudgets(t *testing.T, c *Collector, names ...string) (first *process.Budget) {
	t.Helper()
	for _, name := range names {
		bounds := process.BudgetConfig{Workers: 4, Memory: 1 << 30}
		b, err := process.NewBudget(bounds)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddBudget(name, b, bounds); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
	}
	return first
}

// fullPool is what TestAFullPool wants to see, of what does not depend on the
// machine.
const fullPool = `
# HELP bullpen_process_accepted_total Tasks that were accepted.
# TYPE bullpen_process_accepted_total counter
bullpen_process_accepted_total{pool="images"} 3
# HELP bullpen_process_blocked_callers Callers that wait for room in the queue of the pool.
# TYPE bullpen_process_blocked_callers gauge
bullpen_process_blocked_callers{pool="images"} 0
# HELP bullpen_process_budget_memory_bytes Memory that workers count as using.
# TYPE bullpen_process_budget_memory_bytes gauge
bullpen_process_budget_memory_bytes{budget="all"} 4.194304e+06
# HELP bullpen_process_budget_memory_limit_bytes Maximum memory, 0 for no limit.
# TYPE bullpen_process_budget_memory_limit_bytes gauge
bullpen_process_budget_memory_limit_bytes{budget="all"} 1.073741824e+09
# HELP bullpen_process_budget_pools Pools that share the budget.
# TYPE bullpen_process_budget_pools gauge
bullpen_process_budget_pools{budget="all"} 1
# HELP bullpen_process_budget_starts_total Workers that got room.
# TYPE bullpen_process_budget_starts_total counter
bullpen_process_budget_starts_total{budget="all"} 1
# HELP bullpen_process_budget_workers Worker processes that count in the budget.
# TYPE bullpen_process_budget_workers gauge
bullpen_process_budget_workers{budget="all"} 1
# HELP bullpen_process_budget_workers_limit Maximum number of workers, 0 for no limit.
# TYPE bullpen_process_budget_workers_limit gauge
bullpen_process_budget_workers_limit{budget="all"} 4
# HELP bullpen_process_in_hand Tasks that are with workers.
# TYPE bullpen_process_in_hand gauge
bullpen_process_in_hand{pool="images"} 1
# HELP bullpen_process_queued Tasks that wait in the pool.
# TYPE bullpen_process_queued gauge
bullpen_process_queued{pool="images"} 2
# HELP bullpen_process_refused_total Tasks that were not accepted.
# TYPE bullpen_process_refused_total counter
bullpen_process_refused_total{pool="images"} 1
# HELP bullpen_process_state 1 for the state that the pool is in, 0 for the others.
# TYPE bullpen_process_state gauge
bullpen_process_state{pool="images",state="closed"} 0
bullpen_process_state{pool="images",state="closing"} 0
bullpen_process_state{pool="images",state="draining"} 0
bullpen_process_state{pool="images",state="open"} 1
bullpen_process_state{pool="images",state="stopping"} 0
# HELP bullpen_process_window Maximum number of tasks sent to a worker at a time, now.
# TYPE bullpen_process_window gauge
bullpen_process_window{pool="images"} 1
# HELP bullpen_process_worker_starts_total Worker processes that were started.
# TYPE bullpen_process_worker_starts_total counter
bullpen_process_worker_starts_total{pool="images"} 1
# HELP bullpen_process_workers Worker processes by state.
# TYPE bullpen_process_workers gauge
bullpen_process_workers{pool="images",state="busy"} 1
bullpen_process_workers{pool="images",state="idle"} 0
bullpen_process_workers{pool="images",state="leaving"} 0
bullpen_process_workers{pool="images",state="starting"} 0
# HELP bullpen_process_workers_max Maximum number of workers.
# TYPE bullpen_process_workers_max gauge
bullpen_process_workers_max{pool="images"} 1
# HELP bullpen_process_workers_min Minimum number of workers.
# TYPE bullpen_process_workers_min gauge
bullpen_process_workers_min{pool="images"} 1
`

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

// TestAFullPool has one task with a worker that waits at a named pipe, two in the
// queue, and one refused.
func TestAFullPool(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	bounds := process.BudgetConfig{Workers: 4, Memory: 1 << 30}
	budget, err := process.NewBudget(bounds)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, process.Config{
		Name: "images", Protocol: process.Lines, Min: 1, Max: 1, Window: 1, Queue: 2, Overflow: process.Reject, Budget: budget, Need: 4 << 20,
		Command: []string{"sh", "-c", `while read -r line; do cat "$0" > "$0.got"; echo "$line"; done`, pipe},
	})
	c := collector(t, p)
	if err := c.AddBudget("all", budget, bounds); err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 3)
	for range 3 {
		if err := p.Submit(t.Context(), bullpen.Task{Payload: []byte("x")}, func(_ bullpen.Result, err error) { ends <- err }); err != nil {
			t.Fatal(err)
		}
		if p.Stats().InHand == 0 { // the first one
			if err := p.Ready(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Submit(t.Context(), bullpen.Task{Payload: []byte("x")}, func(bullpen.Result, error) {}); !errors.Is(err, bullpen.ErrOverloaded) {
		t.Fatalf("a fourth task: %v", err)
	}
	wantSeries(t, c, fullPool)
	for range 3 {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the worker
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Stats().RunTime.Count; n != 3 {
		t.Errorf("%d run times, want 3", n)
	}
}

// TestADeath counts how a task and its worker ended.
func TestADeath(t *testing.T) {
	t.Parallel()
	p := open(t, process.Config{Name: "p", Command: []string{"sh", "-c", "read -r a; echo $a; read -r b; kill -9 $$"}, Protocol: process.Lines, Min: 1, Max: 1, Window: 1})
	c := collector(t, p)
	if err := run(t, p, "a"); err != nil {
		t.Fatal(err)
	}
	if err := run(t, p, "b"); err == nil {
		t.Fatal("the worker did not die")
	}
	wantSeries(t, c, `
# HELP bullpen_process_tasks_total Tasks that have ended, by outcome.
# TYPE bullpen_process_tasks_total counter
bullpen_process_tasks_total{outcome="canceled",pool="p"} 0
bullpen_process_tasks_total{outcome="crashed",pool="p"} 0
bullpen_process_tasks_total{outcome="failed",pool="p"} 0
bullpen_process_tasks_total{outcome="lost",pool="p"} 1
bullpen_process_tasks_total{outcome="memory",pool="p"} 0
bullpen_process_tasks_total{outcome="never_started",pool="p"} 0
bullpen_process_tasks_total{outcome="ok",pool="p"} 1
bullpen_process_tasks_total{outcome="output",pool="p"} 0
bullpen_process_tasks_total{outcome="panic",pool="p"} 0
bullpen_process_tasks_total{outcome="protocol",pool="p"} 0
bullpen_process_tasks_total{outcome="timeout",pool="p"} 0
# HELP bullpen_process_worker_deaths_total Workers that ended unexpectedly, by cause.
# TYPE bullpen_process_worker_deaths_total counter
`+deathsOf("p", "signal"))
}

// deathsOf is one death by cause and none by the others.
func deathsOf(pool, cause string) string {
	var text strings.Builder
	for _, each := range unplanned {
		n := "0"
		if each.String() == cause {
			n = "1"
		}
		text.WriteString(`bullpen_process_worker_deaths_total{cause="` + each.String() + `",pool="` + pool + `"} ` + n + "\n")
	}
	return text.String()
}

// TestReplace wants counters that go on while one pool takes the place of
// another, before and after the old one has ended.
func TestReplace(t *testing.T) {
	t.Parallel()
	first, second := open(t, process.Config{Name: "p", Max: 1}), open(t, process.Config{Name: "p", Max: 3})
	c := collector(t, first)
	for range 3 {
		if err := run(t, first, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time changes nothing
		if err := c.Replace(second); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(t, second, "x"); err != nil {
		t.Fatal(err)
	}
	want := func(workers string) {
		t.Helper()
		wantSeries(t, c, `
# HELP bullpen_process_accepted_total Tasks that were accepted.
# TYPE bullpen_process_accepted_total counter
bullpen_process_accepted_total{pool="p"} 4
# HELP bullpen_process_worker_starts_total Worker processes that were started.
# TYPE bullpen_process_worker_starts_total counter
bullpen_process_worker_starts_total{pool="p"} 2
# HELP bullpen_process_workers Worker processes by state.
# TYPE bullpen_process_workers gauge
bullpen_process_workers{pool="p",state="busy"} 0
bullpen_process_workers{pool="p",state="idle"} `+workers+`
bullpen_process_workers{pool="p",state="leaving"} 0
bullpen_process_workers{pool="p",state="starting"} 0
# HELP bullpen_process_workers_max Maximum number of workers.
# TYPE bullpen_process_workers_max gauge
bullpen_process_workers_max{pool="p"} 3
`)
	}
	want("2")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		want("1")
	}
	if s := c.find("p"); len(s.old) != 0 {
		t.Errorf("%d pools that have ended are kept", len(s.old))
	}
	c.Remove(second)
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d series are left after Remove", n)
	}
	if err := c.Replace(first); err != nil {
		t.Errorf("Replace where there is none: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	a, twin, b := open(t, process.Config{Name: "a"}), open(t, process.Config{Name: "a"}), open(t, process.Config{Name: "b"})
	if _, err := New(a, nil, twin); err == nil || !strings.Contains(err.Error(), `already a pool "a"`) || !strings.Contains(err.Error(), "nil") {
		t.Errorf("New says %v, want both faults", err)
	}
	c := collector(t, a)
	if err := c.Add(twin); err == nil {
		t.Error("two pools of one name were taken")
	}
	if err := c.Replace(nil); err == nil {
		t.Error("nil was taken")
	}
	if err := c.Add(b); err != nil {
		t.Error(err)
	}
	c.Remove(a)
	c.Remove(a)
	if err := c.Add(twin); err != nil {
		t.Errorf("after Remove: %v", err)
	}
	if n := testutil.CollectAndCount(c, "bullpen_process_queued"); n != 2 {
		t.Errorf("%d pools are shown, want 2", n)
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	c := collector(t)
	first := addBudgets(t, c, "one", "two")
	if err := c.AddBudget("one", first, process.BudgetConfig{}); err == nil {
		t.Error("two budgets of one name were taken")
	}
	if err := c.AddBudget("three", nil, process.BudgetConfig{}); err == nil {
		t.Error("nil was taken")
	}
	if n := testutil.CollectAndCount(c, "bullpen_process_budget_workers"); n != 2 {
		t.Errorf("%d budgets are shown, want 2", n)
	}
	c.RemoveBudget(first)
	if n := testutil.CollectAndCount(c, "bullpen_process_budget_workers"); n != 1 {
		t.Errorf("%d budgets are shown after RemoveBudget, want 1", n)
	}
}

// TestOnlyTheAdapterLinksTheLibrary asks the compiler what a program with a pool
// links.
func TestOnlyTheAdapterLinksTheLibrary(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/bullpen-run/bullpen/process").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(list), "prometheus") {
		t.Error("package process links the metrics library")
	}
}
