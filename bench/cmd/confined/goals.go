package main

import (
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// goal is one figure to reach.
type goal struct {
	text     string
	row, key string
	base     string // row with which it is compared; empty for none
	how      how
	least    bool // the figure is to be at least bound, else at most
	bound    float64
	unit     string
}

// how a goal compares a figure with its base.
type how uint8

const (
	plain   how = iota
	ratio       // figure / base
	surplus     // figure - base
)

func goals() []goal {
	all := []goal{}
	for _, g := range []struct {
		load        string
		rate, times float64
	}{{"bare", 500, 8}, {"numpy", 400, 60}} {
		for _, n := range flights {
			ours, exec := fmt.Sprintf("zygote/ours-%s-%d", g.load, n), fmt.Sprintf("zygote/exec-%s-%d", g.load, n)
			what := fmt.Sprintf("a: Python workers ready, %s, %d in flight", g.load, n)
			all = append(all,
				goal{text: what, row: ours, key: "starts_per_s", least: true, bound: g.rate, unit: "/s"},
				goal{text: what + ", against exec with -I", row: ours, base: exec, how: ratio, key: "starts_per_s", least: true, bound: g.times, unit: " ×"})
		}
		all = append(all, goal{text: "a: private memory of an idle worker, " + g.load, row: "memory/ours-" + g.load, key: "worked_mb", bound: 2.5, unit: " MB"})
	}
	all = append(all,
		goal{text: "b: first task on a burst, p99 over the round trip", row: "burst/new", key: "over_p99_us", bound: 1000, unit: " µs"},
		goal{text: "b: the same, workers replaced after each task", row: "burst/recycled", key: "over_p99_us", bound: 1000, unit: " µs"},
		goal{text: "c: limits and the default sandbox add to a start", row: "start/default-limits", base: "start/none", how: surplus, key: "p50_us", bound: 500, unit: " µs"},
		goal{text: "c: the strict sandbox adds to a start", row: "start/strict", base: "start/none", how: surplus, key: "p50_us", bound: 1500, unit: " µs"},
		goal{text: "c: the strict sandbox and limits add to a start", row: "start/strict-limits", base: "start/none", how: surplus, key: "p50_us", bound: 1500, unit: " µs"},
		goal{text: "c: landlock and seccomp alone", row: "sandbox/landlock+seccomp", key: "us", bound: 100, unit: " µs"})
	for _, n := range neighbours {
		if n.task.Name != "" && !n.unlimited {
			all = append(all,
				goal{text: "d: innocent tasks' p99, " + n.title, row: n.id, base: neighbours[0].id, how: ratio, key: "p99_us", bound: 2, unit: " ×"},
				goal{text: "d: the host grows, " + n.title, row: n.id, key: "host_growth_mb", bound: 20, unit: " MB"})
		}
	}
	return append(all,
		goal{text: "e: answer after Limits.Timeout, p99", row: "timeout/limit-spare", key: "late_p99_us", bound: 5000, unit: " µs"},
		goal{text: "e: answer after the context's deadline, p99", row: "timeout/context-spare", key: "late_p99_us", bound: 5000, unit: " µs"},
		goal{text: "e: next task with a spare after Limits.Timeout, p99", row: "timeout/limit-spare", key: "next_p99_us", bound: 1000, unit: " µs"},
		goal{text: "e: next task with a spare after the context's deadline, p99", row: "timeout/context-spare", key: "next_p99_us", bound: 1000, unit: " µs"})
}

// reached gives what a goal came to in each round that has the figures, so that
// what is compared was measured within a minute or two.
func (r *run) reached(g goal) (figure.Spread, bool) {
	var all []float64
	for round := 1; round <= r.Rounds; round++ {
		v, ok := r.in(round, g.row, g.key)
		if !ok {
			continue
		}
		if g.how != plain {
			base, ok := r.in(round, g.base, g.key)
			if !ok || g.how == ratio && base <= 0 {
				continue
			}
			if g.how == ratio {
				v /= base
			} else {
				v -= base
			}
		}
		all = append(all, v)
	}
	return figure.Of(all)
}

// met says whether value is good enough for g.
func (g goal) met(value float64) bool {
	if g.least {
		return value >= g.bound
	}
	return value <= g.bound
}

// show writes a value of g.
func (g goal) show(v float64) string {
	switch {
	case v < 10 && v > -10:
		return figure.Number(v, 2)
	case v < 100 && v > -100:
		return figure.Number(v, 1)
	default:
		return figure.Number(v, 0)
	}
}

// goalTable writes what was reached.
func (r *run) goalTable(b *strings.Builder) {
	b.WriteString("\n## Goals\n\n| goal | asked | reached | |\n|---|---|---|---|\n")
	for _, g := range goals() {
		word := "at most"
		if g.least {
			word = "at least"
		}
		text, verdict := "-", "not measured"
		if s, ok := r.reached(g); ok {
			text, verdict = g.show(s.Median)+g.unit, "**missed**"
			if g.met(s.Median) {
				verdict = "ok"
			}
			if s.Least < s.Most {
				text += fmt.Sprintf(" (%s..%s)", g.show(s.Least), g.show(s.Most))
			}
		}
		fmt.Fprintf(b, "| %s | %s %s%s | %s | %s |\n", g.text, word, figure.Number(g.bound, digits(g.bound)), g.unit, text, verdict)
	}
}

// digits is how many are needed behind the point to show v, at most one.
func digits(v float64) int {
	if v == float64(int(v)) {
		return 0
	}
	return 1
}
