package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/process"
)

// loads are what the Python workers import besides the SDK.
var loads = []struct{ id, title, module string }{
	{"bare", "json", "json"},
	{"numpy", "numpy", "numpy"},
}

// flights are how many starts are under way at a time.
var flights = []int{1, 8}

func zygotePart() part {
	p := part{
		id: "zygote", title: "(a) Starts of Python workers",
		note: lines("From the decision to start until the worker is ready for tasks, by the pool's own clock, in the default sandbox, every worker being watched as any other.",
			"*Exec* is the same worker started by `python3 -I` in the same pool. *Fork* is `os.fork` in a warm process that has imported the same module, until the first byte of the child is there; its rate has the end of the child in it."),
		columns: []column{{"starts_per_s", "starts/s", 0}, {"p50_us", "p50 µs", 0}, {"p99_us", "p99 µs", 0}},
	}
	for _, load := range loads {
		for _, n := range flights {
			name := fmt.Sprintf("%s-%d", load.id, n)
			suffix := fmt.Sprintf(", %s, %d in flight", load.title, n)
			add := func(id, title string, k kind, take func(context.Context, options, places) (metrics, error)) {
				p.rows = append(p.rows, row{id, title + suffix, k})
				p.cells = append(p.cells, single(id, take))
			}
			add("zygote/ours-"+name, "Preload", ours, func(ctx context.Context, o options, p places) (metrics, error) {
				return starts(ctx, o, pythonConfig(p, load.module, true), n, pick(o, 50, 10))
			})
			add("zygote/exec-"+name, "exec", others, func(ctx context.Context, o options, p places) (metrics, error) {
				return starts(ctx, o, pythonConfig(p, load.module, false), n, pick(o, 16, 8))
			})
			add("zygote/fork-"+name, "fork", floor, func(ctx context.Context, o options, p places) (metrics, error) {
				return forks(ctx, o, p, load.module, n)
			})
		}
	}
	return p
}

// single is a cell of one row.
func single(id string, take func(context.Context, options, places) (metrics, error)) cell {
	return cell{id: id, take: func(ctx context.Context, o options, p places) (map[string]metrics, error) {
		m, err := take(ctx, o, p)
		if err != nil {
			return nil, err
		}
		return map[string]metrics{id: m}, nil
	}}
}

// pythonConfig is a pool of workers that import the module besides the SDK:
// forked from a process that has imported both, or started each by itself, with
// -I.
func pythonConfig(p places, module string, preload bool) process.Config {
	command := []string{p.python(), p.worker("pyconfined.py"), module}
	c := process.Config{
		Command: command, Idle: -1, Sandbox: process.Sandbox{Profile: process.ProfileDefault},
		Env: []string{"PYTHONPATH=" + filepath.Join(p.root(), "sdk", "python"), "OPENBLAS_NUM_THREADS=1"},
	}
	if preload {
		c.Preload = []string{module}
	} else {
		c.Command = []string{command[0], "-I", command[1], command[2]}
	}
	return c
}

// starts measures starts of workers with so many under way at a time. A pool gets
// a batch of them, which idle, and is closed; the first worker of each pool, which
// may wait for the process that is forked, does not count.
func starts(ctx context.Context, o options, c process.Config, inFlight, batch int) (metrics, error) {
	span := pick(o, 1500*time.Millisecond, 200*time.Millisecond)
	if inFlight > 1 {
		// A pool has at most twice as many starts under way as GOMAXPROCS.
		runtime.GOMAXPROCS(inFlight / 2)
	}
	c.Max = batch + 1
	var took []time.Duration
	var measured time.Duration
	for measured < span {
		n, err := startBatch(ctx, c, inFlight, &took)
		if err != nil {
			return nil, err
		}
		measured += n
	}
	m := metrics{"starts_per_s": float64(len(took)) / measured.Seconds(), "starts": float64(len(took))}
	m.put("", took)
	return m, nil
}

// startBatch adds to took how long each start of one pool took, and gives the
// time of all.
func startBatch(ctx context.Context, c process.Config, inFlight int, took *[]time.Duration) (time.Duration, error) {
	p, err := process.New(c)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Close() }() // what it has to say does not change the figures
	if err := p.Ready(ctx, 1); err != nil {
		return 0, err
	}
	feed := p.Events(4 * c.Max)
	defer feed.Close()
	begin := time.Now()
	if inFlight > 1 {
		err = p.Ready(ctx, c.Max)
	} else {
		for n := 2; n <= c.Max && err == nil; n++ {
			err = p.Ready(ctx, n)
		}
	}
	all := time.Since(begin)
	for _, e := range drain(feed) {
		if e.Kind == process.Ready {
			*took = append(*took, e.Took)
		}
	}
	return all, err
}

// forks measures os.fork in a process that has imported the module.
func forks(ctx context.Context, o options, p places, module string, inFlight int) (metrics, error) {
	span := strconv.FormatFloat(pick(o, 1.5, 0.2), 'f', 1, 64)
	out, err := exec.CommandContext(ctx, p.python(), p.worker("pyfork.py"), strconv.Itoa(inFlight), span, module).Output()
	if err != nil {
		return nil, err
	}
	var said struct {
		Took    []float64
		Seconds float64
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(said.Took))
	for i, s := range said.Took {
		took[i] = time.Duration(s * 1e9)
	}
	m := metrics{"starts_per_s": float64(len(took)) / said.Seconds, "starts": float64(len(took))}
	m.put("", took)
	return m, nil
}
