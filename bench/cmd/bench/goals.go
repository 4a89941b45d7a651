package main

import (
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// goal is one figure that Bullpen set out to reach, as a ratio inside one run.
type goal struct {
	text       string
	experiment string
	key        string
	// ours are the systems of which the better one counts.
	ours []string
	// base are the systems of which the better one is compared with; none means
	// that bound is a plain figure.
	base []string
	// times multiplies the base.
	times float64
	// most is true where ours may be at most so much, false for at least.
	most  bool
	bound float64
}

var roadrunners = []string{"roadrunner-16", "roadrunner-256", "roadrunner"}

func goals() []goal {
	rate := func(text, experiment string, bound float64, ours string, base ...string) goal {
		return goal{text: text, experiment: experiment, key: "rate_per_s", ours: strings.Fields(ours), base: base, times: 1, bound: bound}
	}
	trip := func(text, experiment, key string, bound float64, ours string, base ...string) goal {
		return goal{text: text, experiment: experiment, key: key, ours: []string{ours}, base: base, times: 1, most: true, bound: bound}
	}
	loops := rate("1 MB, Python worker against a Python loop times 2 workers", "sha1m", 0.7, "bullpen-python-16 bullpen-python-batch", "python-loop-1")
	loops.times = 2
	return []goal{
		rate("null 4 B, 16 callers, against RoadRunner", "null4", 6, "bullpen-go-16", roadrunners...),
		rate("null 4 B, 256 callers, against RoadRunner", "null4", 10, "bullpen-go-256", roadrunners...),
		rate("null 4 B, batch, against RoadRunner", "null4", 20, "bullpen-go-batch", roadrunners...),
		rate("1 KB, 256 callers, against RoadRunner", "sha1k", 8, "bullpen-go-256", roadrunners...),
		rate("1 KB, Python worker, 256 callers, against ProcessPoolExecutor", "sha1k", 15, "bullpen-python-256", "ppe"),
		rate("1 KB, Python worker, 256 callers, against multiprocessing.Pool.map", "sha1k", 4, "bullpen-python-256", "mp-map"),
		rate("1 MB, Go worker, against the Go loops in one process", "sha1m", 0.7, "bullpen-go-16 bullpen-go-batch", "in-process-go"),
		rate("1 MB, Go worker, against RoadRunner", "sha1m", 3, "bullpen-go-16 bullpen-go-batch", roadrunners...),
		loops,
		trip("round trip on one processor, Go worker, p50 against the bare pipe", "rtt-one-core", "p50_us", 2, "bullpen-go", "pipe-go-1"),
		trip("round trip on one processor, Python worker, p50 against the bare pipe", "rtt-one-core", "p50_us", 2, "bullpen-python", "pipe-python-1"),
		trip("round trip free, Go worker, p50 against RoadRunner", "rtt", "p50_us", 0.5, "bullpen-go", roadrunners...),
		trip("round trip free, Go worker, p99 against RoadRunner", "rtt", "p99_us", 0.5, "bullpen-go", roadrunners...),
		{text: "five tasks of 1 s on 1 to 5 workers, ms", experiment: "growth", key: "five_tasks_ms", ours: []string{"bullpen-go"}, most: true, bound: 1100},
		{text: "victim of SIGKILL told after, ms", experiment: "kill", key: "victim_ms", ours: []string{"bullpen-go"}, most: true, bound: 5},
		{text: "lines through cat, lines/s", experiment: "lines", key: "lines_per_s", ours: []string{"map-lines"}, bound: 300_000},
	}
}

// among gives the better median of a goal's key among systems.
func (r *run) among(g goal, ids []string) (value float64, ok bool) {
	for _, id := range ids {
		f, has := r.figure(id, g.experiment, g.key)
		if has && (!ok || (f.Median < value) == g.most) {
			value, ok = f.Median, true
		}
	}
	return value, ok
}

// reached gives what a goal came to, false where a figure is missing.
func (r *run) reached(g goal) (float64, bool) {
	value, ok := r.among(g, g.ours)
	if !ok || len(g.base) == 0 {
		return value, ok
	}
	base, ok := r.among(g, g.base)
	if !ok || base == 0 {
		return 0, false
	}
	return value / (base * g.times), true
}

func (r *run) goalTable(b *strings.Builder) {
	b.WriteString("\n## Goals\n\n| goal | asked | reached | |\n|---|---|---|---|\n")
	for _, g := range goals() {
		word := "at least"
		if g.most {
			word = "at most"
		}
		text, unit, verdict := "-", " ×", "not measured"
		show := func(v float64) string { return ratio(v, 1) + unit }
		if len(g.base) == 0 {
			unit, show = "", func(v float64) string { return figure.Number(v, digits(g.bound/1000)) }
		}
		if value, ok := r.reached(g); ok {
			text, verdict = show(value), "**missed**"
			if (value <= g.bound) == g.most || value == g.bound {
				verdict = "ok"
			}
		}
		fmt.Fprintf(b, "| %s | %s %s%s | %s | %s |\n", g.text, word, figure.Number(g.bound, digits(g.bound)), unit, text, verdict)
	}
}

// digits is how many are needed behind the point to show v.
func digits(v float64) int {
	if v == float64(int(v)) {
		return 0
	}
	return 1
}
