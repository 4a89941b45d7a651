package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
	"golang.org/x/sys/unix"
)

// sample is a run of three rounds with known figures.
func sample() *run {
	r := &run{Date: time.Unix(0, 0).UTC(), Command: "go run ./cmd/inproc", Rounds: 3, Span: "100ms", Procs: []int{1, 2}}
	add := func(system, experiment, key string, values ...float64) {
		for i, v := range values {
			r.Figures = append(r.Figures, measured{System: system, Experiment: experiment, Procs: 2, Round: i + 1,
				Metrics: map[string]float64{key: v}, Load: "0.50"})
		}
	}
	add("bullpen", "one", "ns", 30, 36, 90)
	add("bullpen", "one", "allocs", 0.001, 0.002, 0.004)
	add("chan", "one", "ns", 40, 40, 50)
	add("pond", "one", "ns", 88, 90, 92)
	add("ants", "one", "ns", 400, 500, 600)
	add("bullpen-call", "trip", "ns", 400)
	add("ants", "trip", "ns", 300)
	add("tunny", "trip", "ns", 620)
	add("bullpen-map", "group-1024", "ns", 20)
	add("direct", "group-1024", "ns", 16)
	add("bullpen-typed", "deadline", "ns", 100)
	add("bullpen-take", "deadline", "ns", 100)
	add("pond-abandon", "deadline", "ns", 250)
	add("gopool", "deadline", "ns", 350)
	add("bullpen", "queued", "bytes_each", 24.5)
	add("bullpen", "queued", "count", 1_000_000)
	r.Figures = append(r.Figures,
		measured{System: "conc", Experiment: "one", Procs: 2, Round: 1, Error: "a | b\nc", Others: 50},
		// Another GOMAXPROCS changes no goal.
		measured{System: "bullpen", Experiment: "one", Procs: 1, Metrics: map[string]float64{"ns": 1}})
	return r
}

func TestGoals(t *testing.T) {
	t.Parallel()
	type outcome struct {
		value float64
		met   bool
	}
	want := map[string]outcome{
		"a: one producer, against the channel (aim 0.8)":                               {0.9, true},
		"a: one producer, against the best pool":                                       {2.5, true},
		"a: allocations a task":                                                        {0, true},
		"c: Call, against the best pool that gives a result":                           {1.55, true}, // ants gives none
		"d: Map (an iterator over 1024), against the direct loop":                      {1.25, true},
		"e: typed group with a deadline, against the best pool's cooperative deadline": {3.5, true}, // pond abandons there
		"e: futures with a deadline, against the best pool's cooperative deadline":     {3.5, true}, // pond abandons there
		"e: against the long task of the article of 2023, as quoted":                   {10.27, true},
		"f: bytes of a queued closure":                                                 {24.5, false},
		"f: closures queued":                                                           {1_000_000, true},
	}
	r := sample()
	for _, g := range goals() {
		got, _, ok := r.reached(g)
		expected, known := want[g.text]
		if known != ok || (ok && (math.Abs(got-expected.value) > 1e-9 || g.met(got) != expected.met)) {
			t.Errorf("%s: reached %v, %v, met %v; want %v, %v", g.text, got, ok, g.met(got), expected, known)
		}
		delete(want, g.text)
	}
	if len(want) > 0 {
		t.Errorf("no such goals: %v", want)
	}
}

func TestGoalsNameWhatIsMeasured(t *testing.T) {
	t.Parallel()
	measures := func(id, experimentID string) bool {
		s := slices.IndexFunc(systems(), func(s system) bool { return s.ID == id })
		e := slices.IndexFunc(experiments(), func(e experiment) bool { return e.ID == experimentID })
		return s >= 0 && e >= 0 && systems()[s].makers[experiments()[e].Maker] != nil
	}
	for _, g := range goals() {
		for _, id := range append([]string{g.ours}, g.base...) {
			if !measures(id, g.experiment) {
				t.Errorf("goal %q compares with %s in %s, which is not measured", g.text, id, g.experiment)
			}
		}
		if len(g.base) > 0 && g.base[0] == "" {
			t.Errorf("goal %q has an empty base", g.text)
		}
	}
	for _, table := range tables() {
		for _, column := range table.columns {
			if !slices.ContainsFunc(experiments(), func(e experiment) bool { return e.ID == column }) {
				t.Errorf("table %q shows the unknown experiment %s", table.title, column)
			}
		}
	}
	for _, e := range experiments() {
		if !slices.ContainsFunc(tables(), func(table table) bool { return slices.Contains(table.columns, e.ID) }) {
			t.Errorf("no table shows %s", e.ID)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	text := sample().markdown("sample.json")
	for _, want := range []string{
		"| a: one producer, against the channel (aim 0.8) | at most 1 × | 0.90 × | ok | chan |",
		// 75 of 40 is 75 of this channel too, less than the 90 of pond.
		"| a: one producer, against the best pool | at least 2 × | 2.50 × | ok | pond; ultrapool instead of pond: about 2.08 ×, ok |",
		"| f: bytes of a queued closure | at most 24 | 24.5 | **missed** |  |",
		"| pond, Go | 90.0 (88.0..92.0) | - | - | 2.25 |",
		"| *maurice2k/ultrapool v2 1164638 (quoted)* | 75 | | | 1.88 of 40 |",
		"before 1 of ",
		"- conc/one, GOMAXPROCS=2, round 1: a \\| b c",
		"GOMAXPROCS=1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if faster, slower := strings.Index(text, "| pond, Go | 90"), strings.Index(text, "| ants | 500"); faster > slower {
		t.Error("the faster system does not stand first")
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	// Time on a processor is counted by the kernel itself, on any machine that
	// allows it.
	c, err := openCounters(event{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK})
	if err != nil {
		t.Skip(err)
	}
	defer c.close()
	before := c.read()
	for i := range uint64(100_000) {
		if fact(i%50) == 1 && i%50 > 1 {
			t.Fatal("a product of 1")
		}
	}
	if after := c.read(); after <= before {
		t.Errorf("counted %d, then %d", before, after)
	}
	if got := (*counters)(nil).read(); got != 0 {
		t.Errorf("no counters gave %d", got)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	if got, err := numbers("1, 2,8"); err != nil || !slices.Equal(got, []int{1, 2, 8}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "1,,2", "two", "-1"} {
		if got, err := numbers(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
	for v, want := range map[float64]string{0: "0", 1000: "1 000", 24.5: "24.5", 0.25: "0.25"} {
		if got := figure.Number(v, digits(v)); got != want {
			t.Errorf("figure.Number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	got := clean([]string{"A=1", "GOGC=off", "GOMAXPROCS=7", "PATH=/x"})
	if want := []string{"A=1", "PATH=/x"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
