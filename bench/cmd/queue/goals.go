package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// goal is one figure to reach.
type goal struct {
	text            string
	system, against string // against is empty for a goal that compares nothing
	experiment, key string
	base            string // the experiment of against, where it is another one
	least           bool   // the figure is to be at least bound, else at most
	bound           float64
	unit            string
}

const bullpen = "bullpen"

// fullJobs is the -jobs of a run whose millions are ones.
const fullJobs = 1_000_000

func goals() []goal {
	rate := func(experiment, against, text string, times float64) goal {
		return goal{text: text, system: bullpen, against: against, experiment: experiment, key: "rate", least: true, bound: times, unit: " ×"}
	}
	most := func(experiment, key, text string, bound float64, unit string) goal {
		return goal{text: text, system: bullpen, experiment: experiment, key: key, bound: bound, unit: unit}
	}
	// syncs compares the time of one caller with that of one sync of the disk.
	syncs := func(experiment, text string, times float64) goal {
		return goal{text: text, system: bullpen, against: diskAlone, experiment: experiment, base: enqueue1, key: "p50_ms", bound: times, unit: " ×"}
	}
	return []goal{
		rate(enqueue64, pebbleStore, "durable enqueue, 64 callers, against the bare Pebble", 0.7),
		rate(enqueue64, "asynq-always", "the same against Asynq, AOF always", 3),
		rate(enqueue64, "river", "the same against River, single inserts", 20),
		most(enqueue64, "p50_ms", "its confirm, p50", 1, " ms"),
		syncs(enqueue1, "durable enqueue, one caller, p50, against one fdatasync", 1.5),
		rate(end2end64, pebbleStore, "enqueue to durable outcome, 64 callers, against the bare Pebble", 0.4),
		rate(end2end64, "celery", "the same against Celery, prefork 2", 9),
		rate(end2end64, "river", "the same against River", 8),
		rate(end2end64, "asynq-always", "the same against Asynq, AOF always", 12),
		syncs(end2end1, "enqueue to durable outcome, one caller, p50, against one fdatasync", 3),
		most(idle, "p50_ms", "idle, enqueue to start, p50", 0.35, " ms"),
		most(idle, "p99_ms", "idle, enqueue to start, p99", 1, " ms"),
		most(million, "rss_mb", "resident with a million jobs", 100, " MB"),
		most(million, "clean_s", "start with a million jobs, after a clean stop", 0.2, " s"),
		most(million, "killed_s", "start with a million jobs, after SIGKILL", 1, " s"),
		most(tenmillion, "rss_mb", "resident with ten million jobs", 150, " MB"),
		{text: "rate of the last of ten million jobs enqueued, against that of the first", system: bullpen, experiment: tenmillion, key: "kept", least: true, bound: 0.8, unit: " ×"},
	}
}

// reached gives what a goal came to in each round that has the figures, so that
// what is compared was measured within minutes.
func (r *run) reached(g goal) (figure.Spread, bool) {
	if (g.experiment == million || g.experiment == tenmillion) && r.Jobs < fullJobs {
		return figure.Spread{}, false // fewer jobs are no million
	}
	var all []float64
	for round := 1; round <= r.Rounds; round++ {
		v, ok := r.in(round, g.system, g.experiment, g.key)
		if !ok {
			continue
		}
		if g.against != "" {
			base, ok := r.in(round, g.against, cmp.Or(g.base, g.experiment), g.key)
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
		asked := strings.TrimSuffix(strings.TrimSuffix(figure.Number(g.bound, 2), "0"), ".0")
		fmt.Fprintf(b, "| %s | %s %s%s | %s | %s |\n", g.text, word, asked, g.unit, text, verdict)
	}
}
