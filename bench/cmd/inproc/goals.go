package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// goalProcs is the GOMAXPROCS that the goals are about.
const goalProcs = 2

// goal is one figure that Bullpen set out to reach, as a ratio inside one run.
type goal struct {
	text       string
	experiment string
	key        string
	// ours names the way of use that counts.
	ours string
	// base is what ours is compared with; the best of them counts. With none bound
	// is a plain figure.
	base []string
	// times is true for "so many times faster than base", false for "at most so
	// large a part of base".
	times bool
	// least is true for a plain figure that may not be smaller.
	least bool
	bound float64
	// info is true for what nobody asked for, and is worth knowing.
	info bool
	// quoted is the base where it is not measured but quoted.
	quoted string
}

// poolPeers are the libraries that take part in an experiment; those that abandon
// a task at its deadline do more than the others, and are not among them.
func poolPeers(maker string) (ids []string) {
	for _, s := range libraries() {
		if s.makers[maker] != nil && !strings.HasSuffix(s.ID, "-abandon") {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func goals() []goal {
	part := func(text, experiment string, bound float64, ours string, base ...string) goal {
		return goal{text: text, experiment: experiment, key: "ns", ours: ours, base: base, bound: bound}
	}
	times := func(text, experiment, maker string, bound float64, ours string) goal {
		return goal{text: text, experiment: experiment, key: "ns", ours: ours, base: poolPeers(maker), times: true, bound: bound}
	}
	plain := func(text, experiment, key string, bound float64, ours string) goal {
		return goal{text: text, experiment: experiment, key: key, ours: ours, bound: bound}
	}
	all := []goal{
		part("a: one producer, against the channel (aim 0.8)", "one", 1, "bullpen", "chan"),
		times("a: one producer, against the best pool", "one", "one", 2, "bullpen"),
		plain("a: allocations a task", "one", "allocs", 0, "bullpen"),
		times("a: batches of 64, against the best pool", "one", "one", 3, "bullpen-batch"),
	}
	for _, n := range producers[1:] {
		id := fmt.Sprintf("many-%d", n)
		all = append(all,
			part(fmt.Sprintf("b: %d producers, against the channel", n), id, 0.8, "bullpen", "chan"),
			times(fmt.Sprintf("b: %d producers, against the best pool", n), id, "many", 2.2, "bullpen"))
	}
	results := times("c: Call, against the best pool that gives a result", "trip", "", 1.5, "bullpen-call")
	results.base = []string{"tunny", "gammazero-wait", "pond-result"}
	long := goal{text: "e: against the long task of the article of 2023, as quoted", experiment: "deadline", key: "ns",
		ours: "bullpen-take", times: true, bound: 8, quoted: article}
	structs := part("d: typed group of 1024, against the channel of structs", "group-1024", 0, "bullpen-typed", "chan-typed")
	structs.info = true
	atLeast := func(text, experiment string, n int) goal {
		return goal{text: text, experiment: experiment, key: "count", ours: "bullpen", least: true, bound: float64(n)}
	}
	return append(all,
		part("c: Call, against channel and channel", "trip", 1.5, "bullpen-call", "chan"),
		part("c: Submit and Take, against channel and channel", "trip", 1.5, "bullpen-take", "chan"),
		part("c: Call with Spin, against channel and channel", "trip", 1.2, "bullpen-spin", "chan"),
		part("c: Call with Help, against channel and channel", "trip", 0.45, "bullpen-help", "chan"),
		results,
		plain("c: allocations of Call", "trip", "allocs", 0, "bullpen-call"),
		plain("c: allocations of Submit and Take", "trip", "allocs", 0, "bullpen-take"),
		part("d: typed group of 1024, against the channel", "group-1024", 0.7, "bullpen-typed", "chan"),
		times("d: typed group of 1024, against the best pool", "group-1024", "group", 1.9, "bullpen-typed"),
		structs,
		// A group itself makes a handful, whatever its size.
		plain("d: allocations a task, typed group of 1024", "group-1024", "allocs", 0.05, "bullpen-typed"),
		part("d: All (a slice of 1024), against the direct loop", "group-1024", 1.35, "bullpen-all", "direct"),
		part("d: Map (an iterator over 1024), against the direct loop", "group-1024", 1.35, "bullpen-map", "direct"),
		times("e: futures with a deadline, against the best pool's cooperative deadline", "deadline", "deadline", 3, "bullpen-take"),
		times("e: typed group with a deadline, against the best pool's cooperative deadline", "deadline", "deadline", 3, "bullpen-typed"),
		long,
		plain("e: allocations a task", "deadline", "allocs", 1, "bullpen-take"),
		plain("f: bytes of a queued closure", "queued", "bytes_each", 24, "bullpen"),
		plain("f: bytes of a queued task with a future", "futures", "bytes_each", 160, "bullpen"),
		atLeast("f: closures queued", "queued", queuedTasks),
		atLeast("f: futures waiting", "futures", futureTasks))
}

// procsOf gives the GOMAXPROCS of a goal's figures: memory is measured under the
// largest of the run only.
func (r *run) procsOf(g goal) int {
	for _, e := range experiments() {
		if e.ID == g.experiment && e.Most && len(r.Procs) > 0 {
			return slices.Max(r.Procs)
		}
	}
	return goalProcs
}

// reached gives what a goal came to, and which base counted; false where a figure
// is missing.
func (r *run) reached(g goal) (value float64, base string, ok bool) {
	procs := r.procsOf(g)
	own, ok := r.figure(g.ours, g.experiment, g.key, procs)
	if !ok {
		return 0, "", false
	}
	if g.quoted != "" {
		q, ok := quoteOf(g.quoted, g.experiment)
		return q.ns / own.Median, q.title, ok && own.Median > 0
	}
	if len(g.base) == 0 {
		return math.Round(own.Median*100) / 100, "", true
	}
	best := math.Inf(1)
	for _, id := range g.base {
		if f, ok := r.figure(id, g.experiment, g.key, procs); ok && f.Median < best {
			best, base = f.Median, id
		}
	}
	if base == "" || best <= 0 || own.Median <= 0 {
		return 0, "", false
	}
	if g.times {
		return best / own.Median, base, true
	}
	return own.Median / best, base, true
}

// met says whether value is good enough for g.
func (g goal) met(value float64) bool {
	if g.times || g.least {
		return value >= g.bound
	}
	return value <= g.bound
}

// missing gives what a goal would come to if ultrapool had taken part with the
// share of the channel's time that is quoted; nothing where it is not the best.
func (r *run) missing(g goal) string {
	q, ok := quoteOf(ultrapool, g.experiment)
	channel, has := r.figure("chan", g.experiment, "ns", goalProcs)
	value, base, reached := r.reached(g)
	if !g.times || g.quoted != "" || !ok || !has || !reached || !slices.Equal(g.base, poolPeers(makerOf(g.experiment))) {
		return ""
	}
	own, _ := r.figure(g.ours, g.experiment, g.key, goalProcs)
	with := q.ns / q.channel * channel.Median / own.Median
	if with >= value {
		return ""
	}
	verdict := "ok"
	if !g.met(with) {
		verdict = "missed"
	}
	return fmt.Sprintf("; %s instead of %s: about %s ×, %s", ultrapool, base, figure.Ratio(with), verdict)
}

func makerOf(id string) string {
	maker, _, _ := strings.Cut(id, "-")
	return maker
}

// goalTable writes what was reached. Where a figure of ours or of its base is
// missing it says so.
func (r *run) goalTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Goals, GOMAXPROCS=%d\n\n| goal | asked | reached | | best of what it is compared with |\n|---|---|---|---|---|\n", goalProcs)
	for _, g := range goals() {
		word, unit, show := "at most", " ×", figure.Ratio
		if g.times || g.least {
			word = "at least"
		}
		if len(g.base) == 0 && g.quoted == "" {
			unit, show = "", func(v float64) string { return figure.Number(v, digits(v)) }
		}
		text, verdict := "-", "not measured"
		value, base, ok := r.reached(g)
		if ok {
			text, verdict = show(value)+unit, "**missed**"
			if g.met(value) {
				verdict = "ok"
			}
		}
		asked := word + " " + figure.Number(g.bound, digits(g.bound)) + unit
		if g.info {
			asked, verdict = "-", ""
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s%s |\n", g.text, asked, text, verdict, base, r.missing(g))
	}
}

// digits is how many are needed behind the point to show v.
func digits(v float64) int {
	switch {
	case v == math.Trunc(v):
		return 0
	case v*10 == math.Trunc(v*10):
		return 1
	default:
		return 2
	}
}
