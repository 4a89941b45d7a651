// Package cell runs one measurement of one system in a process of its own and
// prints the result as one line of JSON. The Go cells of the benchmark share it,
// so that Bullpen, its Go peer and the bare pipes are measured by the same code.
package cell

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Pool is what a system must offer to be measured.
type Pool interface {
	// Call runs one task and waits for its answer. Safe for concurrent use.
	Call(handler string, payload []byte) ([]byte, error)
	// Pids returns the process ids of the workers that live now.
	Pids() []int
	// Close ends the pool and its workers.
	Close()
}

// Batcher is a pool with a call for many tasks at once.
type Batcher interface {
	// CallAll runs the task n times and gives every answer to check.
	CallAll(handler string, payload []byte, n int, check func([]byte) error) error
}

// Open starts a pool of least to most workers.
type Open func(least, most int) (Pool, error)

// Options are the flags of a cell.
type Options struct {
	Experiment string
	// Load is the number of blocking callers, or "batch".
	Load string
	// Worker is the language of the worker: go or python.
	Worker string
	// Span is how long to measure.
	Span time.Duration
	// Lines is the length of the input of the experiment "lines".
	Lines int
}

// Result is the line that a cell prints.
type Result struct {
	// Metrics are the figures; the names carry the unit.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// InFlight says how many tasks were under way at the same time.
	InFlight string `json:"in_flight,omitempty"`
	// Notes are what a figure cannot say, such as the text of an error.
	Notes map[string]string `json:"notes,omitempty"`
	// Error says why there is no figure.
	Error string `json:"error,omitempty"`
}

// Parse reads the flags of a cell.
func Parse() Options {
	var o Options
	flag.StringVar(&o.Experiment, "experiment", "null4", "what to measure")
	flag.StringVar(&o.Load, "load", "16", "number of blocking callers, or batch")
	flag.StringVar(&o.Worker, "worker", "go", "language of the worker: go or python")
	flag.DurationVar(&o.Span, "span", time.Second, "how long to measure")
	flag.IntVar(&o.Lines, "lines", 300_000, "length of the input of the experiment lines")
	flag.Parse()
	return o
}

// Print writes r, or err when there is one, and ends the process. It leaves the
// pool behind on purpose: the driver ends what is left, and a system whose ending
// hangs must not spoil its figures.
func Print(r Result, err error) {
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "cell:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run measures the experiment named by o on pools that open starts.
func Run(o Options, open Open) (Result, error) {
	switch o.Experiment {
	case "null4", "null1k", "sha1k", "sha1m":
		return throughput(o, open)
	case "rtt", "rtt-one-core":
		return roundTrip(o, open)
	case "cold":
		return cold(o, open)
	case "growth":
		return growth(open)
	case "kill":
		return kill(open)
	case "memory":
		return memory(open)
	default:
		return Result{}, fmt.Errorf("unknown experiment %q", o.Experiment)
	}
}

// Callers is the number of blocking callers that o asks for.
func (o Options) Callers() (int, error) {
	n, err := strconv.Atoi(o.Load)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("load %q: use a number of callers, or batch", o.Load)
	}
	return n, nil
}

// ErrNoFile says that the driver did not name a file that a cell needs.
var ErrNoFile = errors.New("not given: run the cell by the driver (go run ./cmd/bench)")

// Bin returns the path of a program that the driver has built.
func Bin(name string) (string, error) {
	dir := os.Getenv("BENCH_BIN")
	if dir == "" {
		return "", fmt.Errorf("BENCH_BIN %w", ErrNoFile)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("program %s was not built", name)
	}
	return path, nil
}

// Python returns the command that runs a script of the folder workers.
func Python(script string) ([]string, error) {
	python, dir := os.Getenv("BENCH_PYTHON"), os.Getenv("BENCH_DIR")
	if python == "" || dir == "" {
		return nil, fmt.Errorf("BENCH_PYTHON or BENCH_DIR %w", ErrNoFile)
	}
	return []string{python, filepath.Join(dir, "workers", script)}, nil
}
