// Command unmodified measures workers that know nothing of Bullpen, beside the least that
// speaks with the same program: a web server in Go, called by a pool of the protocol http and
// by a bare net/http client whose connections are kept, and functions of Lambda in Go and
// Python, invoked by a pool of the protocol lambda and by a Runtime API that does nothing
// else. Functions in Python that get 32 tasks a call as an SQS event are measured beside the
// same pool with a task a call, the same functions behind the Lambda front of the daemon beside
// the emulator of AWS. Each round takes both in turn. Linux only.
//
//	go run ./cmd/unmodified                # 5 rounds of two seconds each
//	go run ./cmd/unmodified -python ../.cache/clients/python/bin/python -out results
//	go run ./cmd/unmodified -emulator ./aws-lambda-rie -clients ../.cache/clients -count 20000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// figure is what one way has reached in one round.
type figure struct {
	What    string  `json:"what"`
	Way     string  `json:"way"` // bullpen or bare
	Callers int     `json:"callers"`
	Rate    float64 `json:"per_s"`
	P50     float64 `json:"p50_us"`
}

// report is what is kept of a run.
type report struct {
	Command string          `json:"command"`
	Date    string          `json:"date"`
	Machine machine.Machine `json:"machine"`
	Figures []figure        `json:"figures"`
	Clients []tally         `json:"clients,omitempty"`
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "web":
			serveWeb()
			return
		case "function":
			lambda.Start(func(event json.RawMessage) (json.RawMessage, error) { return event, nil })
		}
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each way is taken")
	flag.DurationVar(&o.length, "length", 2*time.Second, "how long a measurement takes")
	flag.StringVar(&o.python, "python", "", "interpreter with awslambdaric (tools/clients.sh); without it, there is no function in Python")
	flag.StringVar(&o.emulator, "emulator", "", "the emulator of AWS, aws-lambda-rie, beside which the Lambda front is measured (the Python package aws-sam-cli has it); without it, neither is")
	flag.StringVar(&o.clients, "clients", filepath.Join("..", ".cache", "clients"), "folder of the runtime clients, made by make clients")
	flag.IntVar(&o.count, "count", 0, "also invoke a function of each runtime client that often, by 64 callers of the Lambda front")
	flag.StringVar(&o.out, "out", "", "folder for the results; none prints them only")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "unmodified:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds, count                  int
	length                         time.Duration
	python, emulator, clients, out string
}

// serveWeb is a web server that answers at once.
func serveWeb() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	})
	if err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), handler); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// target is a way to run one empty task.
type target struct {
	do    func() error
	call  func(event string) (string, error) // behind the Lambda front only
	close func() error
}

// batching is the row whose other way is no bare client, but the pool without batches.
const batching = "lambda, function in Python, 32 tasks a call; bare: one"

// cell is one row of the table.
type cell struct {
	what    string
	callers int
	bullpen func(callers int) (*target, error)
	bare    func(callers int) (*target, error)
}

func run(o options) error {
	r := report{
		Command: "go run ./cmd/unmodified " + strings.Join(os.Args[1:], " "), Date: time.Now().UTC().Format(time.DateOnly), Machine: machine.Describe(),
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-function-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cells, err := o.plan(exe, dir)
	if err != nil {
		return err
	}
	if err := r.measure(cells, o); err != nil {
		return err
	}
	if o.count > 0 {
		daemon, err := buildDaemon(dir)
		if err != nil {
			return err
		}
		if r.Clients, err = tallyAll(daemon, o.clients, dir, exe, o.count); err != nil {
			return err
		}
	}
	text := r.text(cells, o.rounds) + clientsText(r.Clients)
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(o.out, r.Date+"-unmodified.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(o.out, "unmodified.md"), []byte(text), 0o644))
}

// plan returns what is measured. dir is for files.
func (o options) plan(exe, dir string) ([]cell, error) {
	goFunction := function{[]string{exe, "function"}, dir}
	cells := []cell{
		{"http, server in Go", 1, webOfBullpen(exe), webBare(exe)},
		{"http, server in Go", 64, webOfBullpen(exe), webBare(exe)},
		{"lambda, function in Go", 1, functionOfBullpen(goFunction), functionBare(goFunction)},
	}
	functions := []struct {
		name string
		function
	}{{"Go", goFunction}}
	if o.python != "" {
		if err := os.WriteFile(filepath.Join(dir, "null.py"), []byte("def handler(event, context):\n    return None\n"), 0o600); err != nil {
			return nil, err
		}
		python, err := filepath.Abs(o.python)
		if err != nil {
			return nil, err
		}
		f := function{[]string{python, "-m", "awslambdaric", "null.handler"}, dir}
		cells = append(cells,
			cell{"lambda, function in Python", 1, functionOfBullpen(f), functionBare(f)},
			cell{batching, 64, batchesOfBullpen(f, 32), batchesOfBullpen(f, 1)})
		functions = append(functions, struct {
			name string
			function
		}{"Python", f})
	}
	if o.emulator == "" {
		return cells, nil
	}
	path, err := filepath.Abs(o.emulator)
	if err != nil {
		return nil, err
	}
	daemon, err := buildDaemon(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		for _, callers := range []int{1, 64} {
			cells = append(cells, cell{"Lambda front, function in " + f.name, callers, front(daemon, f.function), emulator(path, f.function)})
		}
	}
	return cells, nil
}

// measure takes all ways of all cells in turn.
func (r *report) measure(cells []cell, o options) error {
	for n := range o.rounds {
		for _, c := range cells {
			ways := []string{"bullpen", "bare"}
			if n%2 == 1 {
				slices.Reverse(ways)
			}
			for _, way := range ways {
				f, err := c.measure(way, o.length)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.what, way, err)
				}
				fmt.Fprintf(os.Stderr, "%-28s %2d callers  %-8s %8.0f/s  p50 %7.1f us\n", f.What, f.Callers, f.Way, f.Rate, f.P50)
				r.Figures = append(r.Figures, f)
			}
		}
	}
	return nil
}

// measure runs tasks for that long.
func (c cell) measure(way string, length time.Duration) (f figure, err error) {
	open := c.bullpen
	if way == "bare" {
		open = c.bare
	}
	t, err := open(c.callers)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	for range 20 * c.callers {
		if err := t.do(); err != nil {
			return f, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	all := make([][]time.Duration, c.callers)
	faults := make([]error, c.callers)
	var callers sync.WaitGroup
	began := time.Now()
	for i := range all {
		callers.Go(func() {
			for ctx.Err() == nil && faults[i] == nil {
				at := time.Now()
				faults[i] = t.do()
				all[i] = append(all[i], time.Since(at))
			}
		})
	}
	callers.Wait()
	took := time.Since(began)
	times := slices.Concat(all...)
	slices.Sort(times)
	f = figure{c.what, way, c.callers, float64(len(times)) / took.Seconds(), float64(times[len(times)/2].Nanoseconds()) / 1e3}
	return f, errors.Join(faults...)
}

// text is the table of the medians and their ratios.
func (r *report) text(cells []cell, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Programs that know nothing of Bullpen as workers: %s\n\n", r.Date)
	fmt.Fprintf(&b, "`%s`: empty tasks, %d rounds, both ways in turn; medians. Raw figures: %s-unmodified.json.\n\n", r.Command, rounds, r.Date)
	fmt.Fprintf(&b, "Machine: %s, %d processors, Linux %s. Load average before: %s.\n\n", r.Machine.Processor, r.Machine.Processors, r.Machine.Kernel, r.Machine.Load)
	b.WriteString("| | callers | bullpen, tasks/s | bare, tasks/s | rate | bullpen, p50 | bare, p50 | p50 |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		ours, bare := r.median(c, "bullpen"), r.median(c, "bare")
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.0f | %.2f | %.0f µs | %.0f µs | %.2f |\n", c.what, c.callers,
			ours.Rate, bare.Rate, ours.Rate/bare.Rate, ours.P50, bare.P50, ours.P50/bare.P50)
	}
	b.WriteString("\nBare is the emulator of AWS for the Lambda front; its callers take turns, as it serves one call at a time.\n")
	b.WriteString("\nAsked: http at least 0.7 of the bare rate with 64 callers; lambda at most 1.5 of the bare p50 with one; the Lambda front at least 4 times the rate of the emulator; 32 tasks a call at least 5 times the rate of one.\n")
	return b.String()
}

func (r *report) median(c cell, way string) (f figure) {
	var rates, times []float64
	for _, f := range r.Figures {
		if f.What == c.what && f.Callers == c.callers && f.Way == way {
			rates, times = append(rates, f.Rate), append(times, f.P50)
		}
	}
	slices.Sort(rates)
	slices.Sort(times)
	f.Rate, f.P50 = rates[len(rates)/2], times[len(times)/2]
	return f
}
