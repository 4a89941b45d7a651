package main

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// sample is a run of two rounds with known figures.
func sample() *run {
	r := &run{Name: "sample", Date: time.Unix(0, 0).UTC(), Command: "go run ./cmd/bench", Rounds: 2, Span: "2s"}
	add := func(system, experiment, key string, values ...float64) {
		for i, v := range values {
			r.Figures = append(r.Figures, measured{System: system, Experiment: experiment, Round: i + 1,
				Metrics: map[string]float64{key: v}, InFlight: "x", Load: "0.50"})
		}
	}
	add("roadrunner-16", "null4", "rate_per_s", 50_000, 60_000)
	add("roadrunner-256", "null4", "rate_per_s", 70_000, 50_000)
	add("ppe", "null4", "rate_per_s", 10_000, 14_000)
	add("bullpen-go-16", "null4", "rate_per_s", 300_000, 480_000)
	add("roadrunner", "rtt", "p50_us", 30, 50)
	add("bullpen-go", "rtt", "p50_us", 16, 20)
	add("python-loop-1", "sha1m", "rate_per_s", 1000, 1000)
	add("bullpen-python-16", "sha1m", "rate_per_s", 1100, 1100)
	add("bullpen-python-batch", "sha1m", "rate_per_s", 1600, 1600)
	r.Figures = append(r.Figures, measured{System: "loky", Experiment: "rtt", Round: 1, Error: "a | b\nc", Others: 50})
	return r
}

func TestGoalsCompareMediansWithTheBetterBase(t *testing.T) {
	t.Parallel()
	want := map[string]float64{
		"null 4 B, 16 callers, against RoadRunner":                  6.5, // 390 000 to the better load of RoadRunner, 60 000
		"round trip free, Go worker, p50 against RoadRunner":        0.45,
		"1 MB, Python worker against a Python loop times 2 workers": 0.8, // the better of our two
	}
	r := sample()
	for _, g := range goals() {
		got, ok := r.reached(g)
		if expected, known := want[g.text]; known != ok || (ok && math.Abs(got-expected) > 1e-9) {
			t.Errorf("%s: reached %v, %v; want %v, %v", g.text, got, ok, expected, known)
		}
		delete(want, g.text)
	}
	if len(want) > 0 {
		t.Errorf("no such goals: %v", want)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	text := sample().markdown("sample.json")
	for _, want := range []string{
		"| null 4 B, 16 callers, against RoadRunner | at least 6 × | 6.50 × | ok |",
		"| Bullpen, Go worker, 16 callers | x | 390 000 (300 000..480 000) | 6.50 | 6.50 |",
		"before 1 of 19 figures other programs",
		"Best peer: RoadRunner, Go worker, 256 callers.",
		"- loky/rtt, round 1: a \\| b c",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if faster, slower := strings.Index(text, "| Bullpen, Go worker, 16"), strings.Index(text, "| Python ProcessPool"); faster > slower {
		t.Error("the faster system does not stand first")
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	all := plan(regexp.MustCompile(""))
	var ids []string
	for _, c := range all {
		if c.experiment.ID == "" {
			t.Errorf("%s takes part in an experiment that is not listed", c.system.ID)
		}
		if slices.Contains(ids, c.id()) {
			t.Errorf("%s stands twice", c.id())
		}
		ids = append(ids, c.id())
		if args := c.system.command(places{"/b", "/c"}, c.experiment.ID, options{span: time.Second}); len(args) < 2 {
			t.Errorf("%s has the command %q", c.id(), args)
		}
	}
	for _, g := range goals() {
		for _, id := range append(g.ours[:len(g.ours):len(g.ours)], g.base...) {
			known := slices.ContainsFunc(systems(), func(s system) bool { return s.ID == id })
			if !known {
				t.Errorf("goal %q names the unknown system %s", g.text, id)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{{0, 0, "0"}, {999, 0, "999"}, {1000, 0, "1 000"}, {1234567.89, 1, "1 234 567.9"}, {-1234, 0, "-1 234"}, {12.34, 1, "12.3"}} {
		if got := figure.Number(c.v, c.digits); got != c.want {
			t.Errorf("figure.Number(%v, %d) = %q, want %q", c.v, c.digits, got, c.want)
		}
	}
}
