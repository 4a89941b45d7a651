package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// sample is a run of three rounds with known figures.
func sample() *run {
	r := &run{Date: time.Unix(0, 0).UTC(), Command: "go run ./cmd/queue", Rounds: 3, Span: "4s", Jobs: 1_000_000, Took: "9m0s"}
	add := func(round int, id string, m metrics) {
		system, experiment, _ := strings.Cut(id, "/")
		r.Cells = append(r.Cells, measured{System: system, Experiment: experiment, Round: round, Metrics: m})
	}
	for i, rate := range []float64{60_000, 50_000, 40_000} {
		add(i+1, "bullpen/enqueue64", metrics{"rate": rate, "p50_ms": 1.2, "p99_ms": 3})
	}
	r.Cells[0].SyncP50, r.Cells[0].SyncMost, r.Cells[1].SyncP50, r.Cells[1].SyncMost = 0.2, 3, 0.1, 1
	for i, rate := range []float64{60_000, 100_000, 50_000} {
		add(i+1, "pebble/enqueue64", metrics{"rate": rate, "p50_ms": 9, "p99_ms": 14})
	}
	add(1, "river/enqueue64", metrics{"rate": 12_000})
	add(1, "bullpen/enqueue1", metrics{"rate": 5_000, "p50_ms": 0.2, "p99_ms": 0.3})
	add(1, "bullpen/end2end1", metrics{"rate": 4_000, "p50_ms": 0.25, "p99_ms": 0.3})
	add(1, "bullpen/tenmillion", metrics{"kept": 0.8})
	add(1, "disk/enqueue1", metrics{"rate": 8_000, "p50_ms": 0.125, "p99_ms": 0.2})
	// Rounds in which only one side has a figure are no comparison.
	add(2, "bullpen/end2end64", metrics{"rate": 16_000})
	add(3, "celery/end2end64", metrics{"rate": 1})
	add(1, "bullpen/million", metrics{"jobs": 1_000_000, "clean_s": 0.1, "killed_s": 6})
	r.Cells = append(r.Cells, measured{System: "asynq-always", Experiment: enqueue64, Round: 2, Others: 50, Error: "a | b\nc", Metrics: metrics{"rate": 1}})
	return r
}

func TestGoals(t *testing.T) {
	t.Parallel()
	type outcome struct {
		value float64
		met   bool
	}
	want := map[string]outcome{
		"durable enqueue, 64 callers, against the bare Pebble":                     {0.8, true},
		"the same against River, single inserts":                                   {5, false},
		"its confirm, p50":                                                         {1.2, false},
		"durable enqueue, one caller, p50, against one fdatasync":                  {1.6, false},
		"enqueue to durable outcome, one caller, p50, against one fdatasync":       {2, true},
		"start with a million jobs, after a clean stop":                            {0.1, true},
		"start with a million jobs, after SIGKILL":                                 {6, false},
		"rate of the last of ten million jobs enqueued, against that of the first": {0.8, true},
	}
	r := sample()
	for _, g := range goals() {
		got, ok := r.reached(g)
		expected, known := want[g.text]
		if known != ok || ok && (math.Abs(got.Median-expected.value) > 1e-9 || g.met(got.Median) != expected.met) {
			t.Errorf("%s: reached %v, %v, met %v; want %v, %v", g.text, got, ok, g.met(got.Median), expected, known)
		}
		delete(want, g.text)
	}
	r.Jobs = 1000
	for _, g := range goals() {
		if got, ok := r.reached(g); ok && g.experiment == million {
			t.Errorf("%s: %v is reached with %d jobs", g.text, got, r.Jobs)
		}
	}
	if len(want) > 0 {
		t.Errorf("no such goals: %v", want)
	}
}

func TestGoalsNameCells(t *testing.T) {
	t.Parallel()
	for _, g := range goals() {
		for _, system := range []string{g.system, g.against} {
			if system == "" {
				continue
			}
			experiment := g.experiment
			if system == g.against && g.base != "" {
				experiment = g.base
			}
			c, err := lookUp(system + "/" + experiment)
			if err != nil {
				t.Errorf("goal %q: %v", g.text, err)
				continue
			}
			if !slices.ContainsFunc(c.experiment.columns, func(w column) bool { return w.key == g.key }) {
				t.Errorf("goal %q: %s has no column %s", g.text, c.experiment.id, g.key)
			}
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, c := range plan(choice{all: true}) {
		if slices.Contains(ids, c.id()) {
			t.Errorf("%s is there twice", c.id())
		}
		ids = append(ids, c.id())
		if got, err := lookUp(c.id()); err != nil || got.id() != c.id() {
			t.Errorf("looked up %s and got %s, %v", c.id(), got.id(), err)
		}
		if c.system.title == "" || c.system.durable == "" {
			t.Errorf("%s does not say what it is", c.id())
		}
		if slices.Contains(c.system.needs, redis) != (c.system.fsync != "") {
			t.Errorf("%s needs %v and has appendfsync %q", c.id(), c.system.needs, c.system.fsync)
		}
	}
	for id, want := range map[string]bool{"bullpen/million": true, "river/million": false, "disk/enqueue1": true, "disk/enqueue64": false, "asynq-always/idle": false,
		"pebble/million": true, "bbolt/end2end64": true, "pebble/idle": false, "pebble-own/million": false, "celery/end2end1": false, "bullpen/tenmillion": true} {
		if slices.Contains(ids, id) != want {
			t.Errorf("%s is there: %v, want %v", id, !want, want)
		}
	}
	if _, err := lookUp("bullpen/nothing"); err == nil {
		t.Error("found a cell that is not there")
	}
}

func TestChoice(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		choice    choice
		has, none []string
	}{
		"peers":  {choice{}, []string{"bullpen/enqueue64", "river/enqueue64", "pebble/enqueue64", "disk/enqueue1", "pebble/million"}, []string{"bbolt/enqueue64", "sqlite/million", "pebble-own/enqueue1", "bullpen/tenmillion", "pebble/beside64", "disk-again/enqueue1"}},
		"stores": {choice{stores: true}, []string{"pebble/end2end64", "bbolt/end2end64", "sqlite/million", "pebble-own/enqueue1", "disk/enqueue1", "disk-again/enqueue1", "pebble/beside64"}, []string{"bullpen/enqueue64", "river/enqueue64", "engine/enqueue64", "sqlite/tenmillion"}},
		"ten":    {choice{ten: true}, []string{"bullpen/tenmillion", "pebble/tenmillion"}, []string{"bbolt/tenmillion"}},
	} {
		want.choice.only = regexp.MustCompile("")
		cells := plan(want.choice)
		has := func(id string) bool { return slices.ContainsFunc(cells, func(c cell) bool { return c.id() == id }) }
		for _, id := range want.has {
			if !has(id) {
				t.Errorf("%s: it lacks %s", name, id)
			}
		}
		for _, id := range want.none {
			if has(id) {
				t.Errorf("%s: it has %s", name, id)
			}
		}
	}
	if cells := plan(choice{only: regexp.MustCompile("^pebble/enqueue1$")}); len(cells) != 1 {
		t.Errorf("one cell asked for, and %d given", len(cells))
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	text := sample().markdown("sample.json")
	for _, want := range []string{
		"| durable enqueue, 64 callers, against the bare Pebble | at least 0.7 × | 0.80 × (0.50..1.00) | met |",
		"| durable enqueue, one caller, p50, against one fdatasync | at most 1.5 × | 1.60 × | **missed** |",
		"| the same against Celery, prefork 2 | at least 9 × | - | not measured |",
		"| start with a million jobs, after SIGKILL | at most 1 s | 6.00 s | **missed** |",
		"| group commit | 50 000 (40 000..60 000) | 1.200 | 3.000 | - | - |",
		"| log, 1 fdatasync a commit | 60 000 (50 000..100 000) | 9.000 | 14.000 | - | 0.80 |",
		"| *the disk alone* | fdatasync | 8 000 | 0.125 | 0.200 | - | 0.62 |",
		"before 1 of ",
		"their p50 was 0.150 ms (0.100..0.200 over the cells), the longest 2.0 ms (1.0..3.0).",
		"- asynq-always/enqueue64, round 2: a \\| b c",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Idle: enqueue to start") {
		t.Error("an experiment is shown that nothing was measured for")
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 7, 99_999_999} {
		text := payload(n)
		if got, err := number(text); err != nil || got != n || len(text) != payloadSize {
			t.Errorf("the number of %q is %d, %v; want %d of %d bytes", text, got, err, n, payloadSize)
		}
	}
	for _, bad := range []string{"", "00000001", strings.Repeat("x", payloadSize)} {
		if n, err := number([]byte(bad)); err == nil {
			t.Errorf("%q has the number %d", bad, n)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	all := make([]time.Duration, 200)
	for i := range all {
		all[i] = time.Duration(200-i) * time.Millisecond
	}
	want := metrics{"p50_ms": 101, "p99_ms": 199, "most_ms": 200, "count": 200}
	for key, got := range quantiles(all) {
		if math.Abs(got-want[key]) > 1e-9 {
			t.Errorf("%s is %v, want %v", key, got, want[key])
		}
	}
}

// fake is a contender in memory.
type fake struct {
	started func([]byte, int64)
	calls   atomic.Int64
	fail    int64 // the number of the call that fails; zero for none
	twice   bool  // jobs run twice
}

var errFake = errors.New("a fault")

func (f *fake) enqueue(_ context.Context, payload []byte) error {
	if f.calls.Add(1) == f.fail {
		return errFake
	}
	if f.started != nil {
		f.started(payload, clock())
	}
	if f.started != nil && f.twice {
		f.started(payload, clock()+int64(time.Hour))
	}
	return nil
}

func (f *fake) finish(ctx context.Context, payload []byte) error { return f.enqueue(ctx, payload) }

func (f *fake) close() error { return nil }

func TestTake(t *testing.T) {
	t.Parallel()
	c := cell{experiment: experiment{callers: 4, work: true}}
	for name, f := range map[string]*fake{"well": {}, "fault": {fail: 100}} {
		c.system.open = func(context.Context, site) (contender, error) { return f, nil }
		m, err := c.take(t.Context(), site{}, 20*time.Millisecond)
		if f.fail > 0 {
			if !errors.Is(err, errFake) || m != nil {
				t.Errorf("%s: %v, %v", name, m, err)
			}
			continue
		}
		if err != nil || m["count"] < 1 || m["count"] > float64(f.calls.Load()) || math.Abs(m["rate"]-m["count"]/0.02) > 1e-6 {
			t.Errorf("%s: %v, %v after %d calls", name, m, err, f.calls.Load())
		}
	}
	c.system.open = func(context.Context, site) (contender, error) { return nil, errFake }
	if _, err := c.take(t.Context(), site{}, time.Millisecond); !errors.Is(err, errFake) {
		t.Errorf("a contender that does not open: %v", err)
	}
}

func TestSingleJobs(t *testing.T) {
	t.Parallel()
	s := newStarts()
	m, err := s.singleJobs(t.Context(), time.Microsecond, &fake{started: s.started, twice: true})
	if err != nil || m["count"] != idleJobs || m["most_ms"] > 3_600_000 {
		t.Errorf("%v, %v", m, err)
	}
	s = newStarts()
	if _, err := s.singleJobs(t.Context(), time.Microsecond, &fake{started: s.started, fail: 3}); !errors.Is(err, errFake) {
		t.Errorf("a fault gives %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := newStarts().singleJobs(ctx, time.Hour, &fake{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted one gives %v", err)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := newSlots()
	for range 2 { // a job that runs twice blocks nobody
		if err := s.done(payload(5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.wait(t.Context(), payload(5)); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.wait(ctx, payload(5)); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for what does not come gives %v", err)
	}
	if err := s.done([]byte("nonsense")); err == nil {
		t.Error("nonsense is taken for a payload")
	}
}

func TestRedisServer(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("Redis is not installed:", err)
	}
	s, err := startRedis(t.Context(), t.TempDir(), "always")
	if err != nil {
		t.Fatal(err)
	}
	if err := pingRedis(s.address); err != nil {
		t.Error(err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := pingRedis(s.address); err == nil {
		t.Error("it answers after its end")
	}
}

func TestServerThatEnds(t *testing.T) {
	t.Parallel()
	if _, err := startRedis(t.Context(), t.TempDir(), "nonsense"); err == nil {
		t.Error("a server that ends at its start is taken for ready")
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"disk", "disk-again"} {
		c, err := lookUp(id + "/enqueue1")
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.take(t.Context(), site{Folder: t.TempDir()}, 20*time.Millisecond)
		if err != nil || m["rate"] <= 0 {
			t.Errorf("%s: %v, %v", id, m, err)
		}
	}
	dir := t.TempDir()
	d, err := openDisk(true)(t.Context(), site{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // once around
		if err := d.enqueue(t.Context(), make([]byte, written-1)); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "log")); err != nil || info.Size() != written {
		t.Errorf("the file that is written over has changed: %v, %v", info, err)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
}

func TestResident(t *testing.T) {
	t.Parallel()
	if got := resident("VmRSS"); got < 1 || got > resident("VmHWM") {
		t.Errorf("this process has %v MB, and had %v at the most", got, resident("VmHWM"))
	}
	if got := resident("VmNothing"); got != 0 {
		t.Errorf("a figure that is not there is %v", got)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	got := clean([]string{"A=1", "GOGC=off", "GOMAXPROCS=7", "PATH=/x"})
	if want := []string{"A=1", "PATH=/x"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
