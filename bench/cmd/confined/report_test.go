package main

import (
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample is a run of three rounds with known figures.
func sample() *run {
	r := &run{Date: time.Unix(0, 0).UTC(), Command: "go run ./cmd/confined", Rounds: 3, Took: "5m0s"}
	add := func(round int, id string, m metrics) {
		r.Cells = append(r.Cells, measured{Cell: id, Round: round, Rows: map[string]metrics{id: m}})
	}
	for i, rate := range []float64{600, 500, 400} {
		add(i+1, "zygote/ours-bare-1", metrics{"starts_per_s": rate, "p50_us": 1500, "p99_us": 3000})
	}
	for i, rate := range []float64{60, 100, 50} {
		add(i+1, "zygote/exec-bare-1", metrics{"starts_per_s": rate})
	}
	add(1, "memory/ours-bare", metrics{"worked_mb": 2.51})
	r.Cells = append(r.Cells,
		measured{Cell: "start/all", Round: 1, Rows: map[string]metrics{
			"start/none":           {"p50_us": 900},
			"start/default-limits": {"p50_us": 1300},
		}},
		measured{Cell: "burst/new", Round: 2, Error: "a | b\nc", Others: 50, Rows: map[string]metrics{"burst/new": {"over_p99_us": 1}}})
	// Rounds in which only one side has a figure are no comparison.
	add(1, "neighbour/alone", metrics{"p99_us": 2000})
	add(1, "neighbour/spin", metrics{"p99_us": 5000, "host_growth_mb": 0.5})
	add(2, "neighbour/spin", metrics{"p99_us": 1})
	return r
}

func TestGoals(t *testing.T) {
	t.Parallel()
	type outcome struct {
		value float64
		met   bool
	}
	want := map[string]outcome{
		"a: Python workers ready, bare, 1 in flight":                       {500, true},
		"a: Python workers ready, bare, 1 in flight, against exec with -I": {8, true},
		"a: private memory of an idle worker, bare":                        {2.51, false},
		"c: limits and the default sandbox add to a start":                 {400, true},
		"d: innocent tasks' p99, two workers spin":                         {2.5, false},
		"d: the host grows, two workers spin":                              {0.5, true},
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
	if len(want) > 0 {
		t.Errorf("no such goals: %v", want)
	}
}

func TestGoalsNameRows(t *testing.T) {
	t.Parallel()
	var rows, cells []string
	for _, p := range parts() {
		for _, w := range p.rows {
			if slices.Contains(rows, w.id) || !strings.HasPrefix(w.id, p.id+"/") {
				t.Errorf("row %s is there twice, or not one of %s", w.id, p.id)
			}
			rows = append(rows, w.id)
		}
		for _, c := range p.cells {
			if slices.Contains(cells, c.id) || !strings.HasPrefix(c.id, p.id+"/") {
				t.Errorf("cell %s is there twice, or not one of %s", c.id, p.id)
			}
			cells = append(cells, c.id)
			if got, err := lookUp(c.id); err != nil || got.id != c.id {
				t.Errorf("looked up %s and got %s, %v", c.id, got.id, err)
			}
		}
	}
	if _, err := lookUp("start/nothing"); err == nil {
		t.Error("found a cell that is not there")
	}
	for _, g := range goals() {
		if !slices.Contains(rows, g.row) || g.base != "" && !slices.Contains(rows, g.base) || (g.base == "") != (g.how == plain) {
			t.Errorf("goal %q compares %q with %q", g.text, g.row, g.base)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	text := sample().markdown("sample.json")
	for _, want := range []string{
		"| a: Python workers ready, bare, 1 in flight | at least 500/s | 500/s (400..600) | ok |",
		"| a: private memory of an idle worker, bare | at most 2.5 MB | 2.51 MB | **missed** |",
		"| b: first task on a burst, p99 over the round trip | at most 1 000 µs | - | not measured |",
		"| d: innocent tasks' p99, two workers spin | at most 2 × | 2.50 × | **missed** |",
		"| **Preload, json, 1 in flight** | 500 (400..600) | 1 500 | 3 000 |",
		"| exec, json, 1 in flight | 60 (50..100) | - | - |",
		"| *alone* | - | 2 000 |",
		"before 1 of ",
		"- burst/new, round 2: a \\| b c",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "(b) Eight tasks") && strings.Contains(text, "eight warm workers") {
		t.Error("a row is shown that nothing was measured for")
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	all := make([]time.Duration, 100)
	for i := range all {
		all[i] = time.Duration(100 - i)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := quantile(all, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("the quantile of nothing is %v", got)
	}
}

func TestResident(t *testing.T) {
	debug.FreeOSMemory() // what is free already would be used again
	before, err := forgetPeak()
	if err != nil {
		t.Skip("the kernel does not forget the highest resident size:", err)
	}
	if before < 1 {
		t.Fatalf("this process has %v MB", before)
	}
	const size = 64 << 20
	block := make([]byte, size)
	for i := 0; i < size; i += os.Getpagesize() {
		block[i] = 1
	}
	if peak := resident("VmHWM"); peak-before < 60 || block[0] != 1 {
		t.Errorf("64 MiB more made %v MB beside %v MB", peak-before, before)
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

func TestBenchLine(t *testing.T) {
	t.Parallel()
	text := "goos: linux\nBenchmarkSandboxParts/thread-2         \t    4000\t     51234 ns/op\nBenchmarkSandboxParts/thread+landlock+seccomp \t 100\t 99.5 ns/op\nPASS\n"
	got := benchLine.FindAllStringSubmatch(text, -1)
	if len(got) != 2 || got[0][1] != "thread" || got[0][2] != "51234" || got[1][1] != "thread+landlock+seccomp" || got[1][2] != "99.5" {
		t.Errorf("got %q", got)
	}
}
