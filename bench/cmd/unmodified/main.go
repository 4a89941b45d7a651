// Command unmodified measures workers that know nothing of Bullpen, beside the least that
// speaks with the same program: a web server in Go, called by a pool of the protocol http and
// by a bare net/http client whose connections are kept, and functions of Lambda in Go and
// Python, invoked by a pool of the protocol lambda and by a Runtime API that does nothing
// else. Each round takes both in turn. Linux only.
//
//	go run ./cmd/unmodified                # 5 rounds of two seconds each
//	go run ./cmd/unmodified -python ../.cache/clients/python/bin/python -out results
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
	rounds := flag.Int("rounds", 5, "how often each way is taken")
	length := flag.Duration("length", 2*time.Second, "how long a measurement takes")
	python := flag.String("python", "", "interpreter with awslambdaric (tools/clients.sh); without it, there is no function in Python")
	out := flag.String("out", "", "folder for the results; none prints them only")
	flag.Parse()
	if err := run(*rounds, *length, *python, *out); err != nil {
		fmt.Fprintln(os.Stderr, "unmodified:", err)
		os.Exit(1)
	}
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
	close func() error
}

// cell is one row of the table.
type cell struct {
	what    string
	callers int
	bullpen func(callers int) (*target, error)
	bare    func(callers int) (*target, error)
}

func run(rounds int, length time.Duration, python, out string) error {
	r := report{
		Command: "go run ./cmd/unmodified " + strings.Join(os.Args[1:], " "), Date: time.Now().UTC().Format(time.DateOnly), Machine: machine.Describe(),
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	goFunction := []string{exe, "function"}
	cells := []cell{
		{"http, server in Go", 1, webOfBullpen(exe), webBare(exe)},
		{"http, server in Go", 64, webOfBullpen(exe), webBare(exe)},
		{"lambda, function in Go", 1, functionOfBullpen(goFunction, ""), functionBare(goFunction, "")},
	}
	if python != "" {
		dir, err := os.MkdirTemp("", "bench-function-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "null.py"), []byte("def handler(event, context):\n    return None\n"), 0o600); err != nil {
			return err
		}
		if python, err = filepath.Abs(python); err != nil {
			return err
		}
		command := []string{python, "-m", "awslambdaric", "null.handler"}
		cells = append(cells, cell{"lambda, function in Python", 1, functionOfBullpen(command, dir), functionBare(command, dir)})
	}
	for n := range rounds {
		for _, c := range cells {
			ways := []string{"bullpen", "bare"}
			if n%2 == 1 {
				slices.Reverse(ways)
			}
			for _, way := range ways {
				f, err := c.measure(way, length)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.what, way, err)
				}
				fmt.Fprintf(os.Stderr, "%-28s %2d callers  %-8s %8.0f/s  p50 %7.1f us\n", f.What, f.Callers, f.Way, f.Rate, f.P50)
				r.Figures = append(r.Figures, f)
			}
		}
	}
	text := r.text(cells, rounds)
	fmt.Print(text)
	if out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(out, r.Date+"-unmodified.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(out, "unmodified.md"), []byte(text), 0o644))
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
	b.WriteString("\nAsked: http at least 0.7 of the bare rate with 64 callers; lambda at most 1.5 of the bare p50 with one.\n")
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
