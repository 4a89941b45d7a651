package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/bench/internal/figure"
	"github.com/bullpen-run/bullpen/process"
)

// limits are those of every pool that has some.
func limits(c *process.Config) {
	c.Limits = bullpen.Limits{Memory: 256 << 20, CPU: 1}
	c.PIDs = 64
}

// startVariants are the ways of starting the Go worker that are compared.
var startVariants = []struct {
	id, title string
	profile   process.Profile
	limited   bool
}{
	{"start/none", "sandbox none, no limits", process.ProfileNone, false},
	{"start/none-limits", "sandbox none, limits", process.ProfileNone, true},
	{"start/default", "sandbox default, no limits", process.ProfileDefault, false},
	{"start/default-limits", "sandbox default, limits", process.ProfileDefault, true},
	{"start/strict", "sandbox strict, no limits", process.ProfileStrict, false},
	{"start/strict-limits", "sandbox strict, limits", process.ProfileStrict, true},
}

func startPart() part {
	p := part{
		id: "start", title: "(c) Start of a static Go worker",
		note: lines("From the decision to start until the worker is ready, by the pool's own clock, with limits of memory, processes and CPU or without.",
			"One start after the other, the variants in turn in random order, each after the end of the one before; control groups are reused, as they are when workers are replaced.",
			"*Exec* is `os/exec` of the same program until its first byte is there."),
		columns: []column{{"p50_us", "p50 µs", 0}, {"p99_us", "p99 µs", 0}, {"over_p50_us", "p50 over the first, µs", 0}},
		cells:   []cell{{id: "start/all", take: takeStarts}},
	}
	for _, v := range startVariants {
		p.rows = append(p.rows, row{v.id, v.title, ours})
	}
	p.rows = append(p.rows, row{"start/exec", "exec", floor})
	return p
}

// starter starts the worker once and gives how long it took.
type starter struct {
	id    string
	start func(context.Context) (time.Duration, error)
	close func() error
	took  []time.Duration
}

func takeStarts(ctx context.Context, o options, at places) (rows map[string]metrics, err error) {
	all := []*starter{{id: "start/exec", start: at.hello, close: func() error { return nil }}}
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.close())
		}
	}()
	rows = map[string]metrics{}
	for _, v := range startVariants {
		c := process.Config{Command: []string{at.rough()}, Max: 1, Recycle: process.Recycle{Tasks: 1}, Sandbox: process.Sandbox{Profile: v.profile}}
		if v.limited {
			limits(&c)
		}
		s, err := newStarter(v.id, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.id, err)
		}
		all = append(all, s)
	}
	const warm = 3 // starts that do not count
	for n := range pick(o, 150, 20) + warm {
		for _, i := range rand.Perm(len(all)) {
			took, err := all[i].start(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].id, err)
			}
			if n >= warm {
				all[i].took = append(all[i].took, took)
			}
		}
	}
	for _, s := range all {
		rows[s.id] = metrics{}
		rows[s.id].put("", s.took)
	}
	for _, m := range rows {
		m["over_p50_us"] = m["p50_us"] - rows[startVariants[0].id]["p50_us"]
	}
	return rows, nil
}

// newStarter makes a pool whose one worker leaves after each task.
func newStarter(id string, c process.Config) (*starter, error) {
	p, err := process.New(c)
	if err != nil {
		return nil, err
	}
	feed := p.Events(0)
	start := func(ctx context.Context) (took time.Duration, err error) {
		if _, err := p.Execute(ctx, bullpen.Task{Name: "null"}); err != nil {
			return 0, err
		}
		for {
			select {
			case e := <-feed.C:
				switch e.Kind {
				case process.Ready:
					took = e.Took
				case process.Stopped:
					return took, nil
				case process.Died, process.StartFailed:
					return 0, errors.New(e.Text)
				default:
				}
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
	}
	return &starter{id: id, start: start, close: p.Close}, nil
}

// hello starts the worker's program without a pool.
func (p places) hello(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, p.rough(), "-hello")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = out.Read(make([]byte, 1))
	took := time.Since(begin)
	return took, errors.Join(err, cmd.Wait())
}

func sandboxPart() part {
	return part{
		id: "sandbox", title: "(c) Landlock and seccomp alone",
		note: lines("From the benchmark `SandboxParts` of internal/confine, median of five runs: the rules made and applied and the filter loaded, on a fresh thread for each child, which inherits them.",
			"The namespaces are what they add to making that thread."),
		columns: []column{{"us", "µs", 1}},
		rows: []row{{"sandbox/landlock+seccomp", "landlock and seccomp", ours}, {"sandbox/namespaces", "namespaces and mounts", ours},
			{"sandbox/thread", "the thread alone", floor}},
		cells: []cell{{id: "sandbox/parts", take: takeSandbox}},
	}
}

var benchLine = regexp.MustCompile(`(?m)^BenchmarkSandboxParts/(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// takeSandbox runs the benchmark.
func takeSandbox(ctx context.Context, o options, at places) (map[string]metrics, error) {
	cmd := exec.CommandContext(ctx, at.confineTest(), "-test.run", "^$", "-test.bench", "^BenchmarkSandboxParts$/^(thread|thread.namespaces|landlock.seccomp)$",
		"-test.benchtime", pick(o, "100ms", "20ms"), "-test.count", "5")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out[max(0, len(out)-400):])
	}
	all := map[string][]float64{}
	for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		all[m[1]] = append(all[m[1]], ns/1e3)
	}
	us := map[string]float64{}
	for name, times := range all {
		s, _ := figure.Of(times)
		us[name] = s.Median
	}
	if len(us) != 3 {
		return nil, fmt.Errorf("the benchmark said: %s", out[max(0, len(out)-400):])
	}
	return map[string]metrics{
		"sandbox/thread":           {"us": us["thread"]},
		"sandbox/landlock+seccomp": {"us": us["landlock+seccomp"]},
		"sandbox/namespaces":       {"us": us["thread+namespaces"] - us["thread"]},
	}, nil
}
