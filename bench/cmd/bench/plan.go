package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// kind says what a system stands for in the tables.
type kind string

const (
	ours  kind = "ours"
	peer  kind = "peer"
	floor kind = "floor" // no pool at all: what the machine gives
)

// system is one line of a table.
type system struct {
	ID    string
	Title string
	Kind  kind
	// Experiments that the system takes part in.
	Experiments []string
	// Needs names what has to be installed for it: python, node or parallel.
	Needs string
	// command gives the child process that measures one experiment.
	command func(p places, experiment string, o options) []string
}

// experiment is one table.
type experiment struct {
	ID, Title string
	// Metrics are the columns, the first being the one for the ratios.
	Metrics []metric
	// Ratios asks for the columns that compare.
	Ratios bool
	// Rounds is the most rounds in which it runs; 0 means all. What depends on a
	// bound of seconds, not on the speed of the machine, needs no repeating.
	Rounds int
	// Bound ends a cell that hangs.
	Bound time.Duration
}

// metric is one figure of an experiment.
type metric struct {
	Key, Title string
	// Less is true where the smaller figure is the better one.
	Less bool
	// Digits after the point.
	Digits int
}

func experiments() []experiment {
	rate := []metric{{Key: "rate_per_s", Title: "tasks/s"}}
	trip := []metric{{Key: "p50_us", Title: "p50 µs", Less: true, Digits: 1}, {Key: "p99_us", Title: "p99 µs", Less: true, Digits: 1}}
	return []experiment{
		{ID: "null4", Ratios: true, Title: "Null task, 4 bytes in, nothing out", Metrics: rate},
		{ID: "null1k", Ratios: true, Title: "Null task, 1 KB in, nothing out", Metrics: rate},
		{ID: "sha1k", Ratios: true, Title: "SHA-512 and base64 of 1 KB", Metrics: rate},
		{ID: "sha1m", Ratios: true, Title: "SHA-512 and base64 of 1 MB", Metrics: rate},
		{ID: "rtt", Ratios: true, Title: "Round trip of a null task, one in flight, free on all processors", Metrics: trip},
		{ID: "rtt-one-core", Ratios: true, Title: "Round trip of a null task, one in flight, everything pinned to one processor", Metrics: trip},
		{ID: "cold", Ratios: true, Title: "Cold start: from making a pool of two to its first reply", Metrics: []metric{
			{Key: "first_ms", Title: "first pool ms", Less: true, Digits: 1}, {Key: "again_ms", Title: "later pools ms", Less: true, Digits: 1}}},
		{ID: "growth", Title: "Growth: five tasks of 1 s on a pool of 1 to 5", Rounds: 3, Metrics: []metric{
			{Key: "five_tasks_ms", Title: "all done ms", Less: true}, {Key: "workers", Title: "workers at the end"}}},
		{ID: "kill", Title: "SIGKILL of a worker", Rounds: 3, Metrics: []metric{
			{Key: "victim_ms", Title: "victim told after ms", Less: true, Digits: 1},
			{Key: "neighbour_ok", Title: "neighbour ok (of 1)"}, {Key: "queued_ok", Title: "queued ok (of 4)"},
			{Key: "after_ok", Title: "next tasks ok (of 4)"}, {Key: "workers_after", Title: "workers after (of 2)"},
			{Key: "idle_now_ok", Title: "idle one killed, at once: ok (of 4)"}, {Key: "idle_later_ok", Title: "0.5 s later: ok (of 4)"}}},
		{ID: "memory", Ratios: true, Title: "Memory of an idle worker", Rounds: 1, Metrics: []metric{
			{Key: "uss_mb", Title: "unshared MB", Less: true, Digits: 1}, {Key: "pss_mb", Title: "proportional MB", Less: true, Digits: 1},
			{Key: "rss_mb", Title: "resident MB", Less: true, Digits: 1}}},
		{ID: "lines", Ratios: true, Title: "Lines through cat", Rounds: 1, Bound: 4 * time.Minute, Metrics: []metric{
			{Key: "lines_per_s", Title: "lines/s"}, {Key: "peak_mb", Title: "peak resident MB", Less: true, Digits: 1}, {Key: "lines", Title: "lines"}}},
	}
}

var (
	rates = []string{"null4", "null1k", "sha1k", "sha1m"}
	small = rates[:3]
	trips = []string{"rtt", "rtt-one-core"}
	rest  = []string{"rtt", "rtt-one-core", "cold", "growth", "kill", "memory"}
)

func systems() []system {
	var all []system
	for _, language := range []string{"go", "python"} {
		title := map[string]string{"go": "Go", "python": "Python"}[language]
		for load, experiments := range map[string][]string{"16": rates, "256": small, "batch": rates} {
			all = append(all, system{"bullpen-" + language + "-" + load, "Bullpen, " + title + " worker, " + loadTitle(load),
				ours, experiments, language, goCell("bullpen-cell", language, load)})
		}
		all = append(all, system{"bullpen-" + language, "Bullpen, " + title + " worker", ours, rest, language, goCell("bullpen-cell", language, "1")})
		for load, experiments := range map[string][]string{"1": append(append([]string{}, rates...), trips...), "16": small} {
			all = append(all, system{"pipe-" + language + "-" + load, "*bare pipes, " + title + ", " + load + " in flight*",
				floor, experiments, language, goCell("floor-cell", language, load)})
		}
	}
	all = append(all,
		system{"roadrunner-16", "RoadRunner, Go worker, 16 callers", peer, rates, "", goCell("roadrunner-cell", "go", "16")},
		system{"roadrunner-256", "RoadRunner, Go worker, 256 callers", peer, small, "", goCell("roadrunner-cell", "go", "256")},
		system{"roadrunner", "RoadRunner, Go worker", peer, rest, "", goCell("roadrunner-cell", "go", "1")},
		system{"ppe", "Python ProcessPoolExecutor", peer, append(rates[:4:4], rest...), "python", pythonCell("ppe")},
		system{"mp-map", "Python multiprocessing.Pool.map", peer, rates, "python", pythonCell("mp-map")},
		system{"mp-apply", "Python multiprocessing.Pool.apply_async", peer,
			append(rates[:4:4], "rtt", "rtt-one-core", "cold", "kill", "memory"), "python", pythonCell("mp-apply")},
		system{"loky", "loky", peer, append(rates[:4:4], rest...), "python", pythonCell("loky")},
		system{"pebble", "Pebble", peer, append(rates[:4:4], rest...), "python", pythonCell("pebble")},
		system{"piscina", "piscina (threads)", peer, append(rates[:4:4], "rtt", "rtt-one-core", "cold", "growth"), "node", nodeCell("piscina")},
		system{"workerpool", "workerpool (processes, JSON)", peer, append(rates[:4:4], rest...), "node", nodeCell("workerpool")},
		system{"workerpool-advanced", "workerpool (processes, advanced serialization)", peer, append(rates[:4:4], rest...), "node", nodeCell("workerpool-advanced")},
		system{"xargs", "xargs -P 2", peer, rates, "", goCell("shell-cell", "xargs", "2")},
		system{"parallel", "GNU parallel -j 2", peer, rates, "parallel", goCell("shell-cell", "parallel", "2")},
		system{"in-process-go", "*in this process, 2 goroutines*", floor, []string{"sha1k", "sha1m"}, "", goCell("floor-cell", "none", "2")},
		system{"python-loop-1", "*one Python loop*", floor, []string{"sha1k", "sha1m"}, "python", pythonCell("loop-1")},
		system{"python-loop-2", "*two Python loops*", floor, []string{"sha1k", "sha1m"}, "python", pythonCell("loop-2")},
		system{"map-lines", "bullpen map --protocol lines", ours, []string{"lines"}, "", goCell("shell-cell", "bullpen", "1")},
		system{"map-lines-keep", "bullpen map --protocol lines -k", ours, []string{"lines"}, "", goCell("shell-cell", "bullpen-keep", "1")},
		system{"parallel-pipe", "GNU parallel --pipe", peer, []string{"lines"}, "parallel", goCell("shell-cell", "parallel", "1")},
		system{"xargs-lines", "xargs -P 2 -n 400 echo", peer, []string{"lines"}, "", goCell("shell-cell", "xargs", "1")},
	)
	return all
}

func loadTitle(load string) string {
	if load == "batch" {
		return "ExecuteAll"
	}
	return load + " callers"
}

func goCell(program, worker, load string) func(places, string, options) []string {
	return func(p places, experiment string, o options) []string {
		return []string{p.bin(program), "-experiment", experiment, "-worker", worker, "-load", load,
			"-span", o.span.String(), "-lines", strconv.Itoa(o.lines)}
	}
}

func pythonCell(name string) func(places, string, options) []string {
	return func(p places, experiment string, o options) []string {
		return []string{p.python(), p.in("peers/python/cells.py"), "-system", name, "-experiment", experiment,
			"-span", fmt.Sprint(o.span.Seconds())}
	}
}

func nodeCell(name string) func(places, string, options) []string {
	return func(p places, experiment string, o options) []string {
		return []string{"node", p.cached("node/cells.mjs"), "--system", name, "--experiment", experiment,
			"--span", fmt.Sprint(o.span.Seconds())}
	}
}

// cell is one measurement to be made.
type cell struct {
	system     system
	experiment experiment
}

func (c cell) id() string { return c.system.ID + "/" + c.experiment.ID }

// plan lists the cells whose id matches only.
func plan(only *regexp.Regexp) []cell {
	byID := map[string]experiment{}
	for _, e := range experiments() {
		byID[e.ID] = e
	}
	var all []cell
	for _, s := range systems() {
		for _, id := range s.Experiments {
			if c := (cell{s, byID[id]}); only.MatchString(c.id()) {
				all = append(all, c)
			}
		}
	}
	return all
}
