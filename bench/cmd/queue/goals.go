package main

import (
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// goal is one figure to reach.
type goal struct {
	text            string
	system, against string // against is empty for a goal that compares nothing
	experiment, key string
	least           bool // the figure is to be at least bound, else at most
	bound           float64
	unit            string
}

const bullpen = "bullpen"

func goals() []goal {
	rate := func(experiment, against, text string, times float64) goal {
		return goal{text: text, system: bullpen, against: against, experiment: experiment, key: "rate", least: true, bound: times, unit: " ×"}
	}
	most := func(experiment, key, text string, bound float64, unit string) goal {
		return goal{text: text, system: bullpen, experiment: experiment, key: key, bound: bound, unit: unit}
	}
	return []goal{
		rate(enqueue64, "engine-always", "durable enqueue, 64 callers, against the engine's sync always", 6),
		rate(enqueue64, "asynq-always", "the same against Asynq, AOF always", 2),
		rate(enqueue64, "river", "the same against River, single inserts", 6),
		most(enqueue64, "p50_ms", "its confirm, p50", 1.5, " ms"),
		{text: "durable enqueue, one caller, p50, against one fdatasync", system: bullpen, against: "disk", experiment: enqueue1, key: "p50_ms", bound: 1.5, unit: " ×"},
		{text: "enqueue to durable outcome, 64 callers", system: bullpen, experiment: end2end64, key: "rate", least: true, bound: 15000, unit: "/s"},
		rate(end2end64, "celery", "the same against Celery, prefork 2", 9),
		rate(end2end64, "river", "the same against River", 3),
		rate(end2end64, "asynq-always", "the same against Asynq, AOF always", 5),
		most(idle, "p50_ms", "idle, enqueue to start, p50", 0.5, " ms"),
		most(idle, "p99_ms", "idle, enqueue to start, p99", 3, " ms"),
		most(million, "clean_s", "start with a million jobs, after a clean stop", 5, " s"),
		most(million, "killed_s", "start with a million jobs, after SIGKILL", 5, " s"),
	}
}

// reached gives what a goal came to in each round that has the figures, so that
// what is compared was measured within minutes.
func (r *run) reached(g goal) (figure.Spread, bool) {
	var all []float64
	for round := 1; round <= r.Rounds; round++ {
		v, ok := r.in(round, g.system, g.experiment, g.key)
		if !ok {
			continue
		}
		if g.against != "" {
			base, ok := r.in(round, g.against, g.experiment, g.key)
			if !ok || base <= 0 {
				continue
			}
			v /= base
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

// shown writes v with about three digits.
func shown(v float64) string {
	switch {
	case v < 10:
		return figure.Number(v, 2)
	case v < 100:
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
			text, verdict = shown(s.Median)+g.unit, "**missed**"
			if g.met(s.Median) {
				verdict = "met"
			}
			if s.Least < s.Most {
				text += fmt.Sprintf(" (%s..%s)", shown(s.Least), shown(s.Most))
			}
		}
		asked := strings.TrimSuffix(figure.Number(g.bound, 1), ".0")
		fmt.Fprintf(b, "| %s | %s %s%s | %s | %s |\n", g.text, word, asked, g.unit, text, verdict)
	}
}
