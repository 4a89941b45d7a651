// Command stream measures how soon the first byte of a result that streams is at its caller:
// the time from the moment before a worker writes it to the moment at which a caller of
// bullpen serve has it (POST /v1/pools/P/run?chunks=true), by one clock, for a worker of each
// protocol that can stream. The workers are in Go; there is one caller, on a kept connection.
// Each round takes the protocols in turn. Linux only.
//
//	go run ./cmd/stream                # 5 rounds of 2000 tasks each
//	go run ./cmd/stream -out results
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// protocols are those whose workers can stream.
var protocols = []string{"frames", "lambda", "http"}

// figure is what one protocol has reached in one round, in microseconds.
type figure struct {
	Protocol string  `json:"protocol"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
}

// report is what is kept of a run.
type report struct {
	Command string          `json:"command"`
	Date    string          `json:"date"`
	Machine machine.Machine `json:"machine"`
	Figures []figure        `json:"figures"`
}

func main() {
	if len(os.Args) > 1 && slices.Contains(protocols, os.Args[1]) {
		serve(os.Args[1])
		return
	}
	rounds := flag.Int("rounds", 5, "how often each protocol is taken")
	tasks := flag.Int("tasks", 2000, "how many tasks a round has")
	out := flag.String("out", "", "folder for the results; none prints them only")
	flag.Parse()
	if err := run(*rounds, *tasks, *out); err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

func run(rounds, tasks int, out string) (err error) {
	r := report{
		Command: "go run ./cmd/stream " + strings.Join(os.Args[1:], " "), Date: time.Now().UTC().Format(time.DateOnly), Machine: machine.Describe(),
	}
	ctx := context.Background()
	d, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	for range rounds {
		for _, protocol := range protocols {
			f, err := d.measure(ctx, protocol, tasks)
			if err != nil {
				return fmt.Errorf("%s: %w", protocol, err)
			}
			fmt.Fprintf(os.Stderr, "%-8s p50 %6.0f us  p99 %6.0f us\n", f.Protocol, f.P50, f.P99)
			r.Figures = append(r.Figures, f)
		}
	}
	text := r.text(rounds, tasks)
	fmt.Print(text)
	if out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(out, r.Date+"-stream.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(out, "stream.md"), []byte(text), 0o644))
}

// measure runs tasks one after the other.
func (d *daemon) measure(ctx context.Context, protocol string, tasks int) (f figure, err error) {
	all := make([]time.Duration, 0, tasks)
	for i := range tasks + tasks/10 {
		took, err := d.first(ctx, protocol)
		if err != nil {
			return f, err
		}
		if i >= tasks/10 { // after the warm-up
			all = append(all, took)
		}
	}
	slices.Sort(all)
	micros := func(part float64) float64 { return float64(all[int(float64(len(all)-1)*part)].Nanoseconds()) / 1e3 }
	return figure{protocol, micros(0.5), micros(0.99)}, nil
}

// text is the table of the medians.
func (r *report) text(rounds, tasks int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The first byte of a result that streams: %s\n\n", r.Date)
	fmt.Fprintf(&b, "`%s`: from the worker's write to the caller of `bullpen serve`, %d rounds of %d tasks, the protocols in turn; medians. Raw figures: %s-stream.json.\n\n",
		strings.TrimSpace(r.Command), rounds, tasks, r.Date)
	fmt.Fprintf(&b, "Machine: %s, %d processors, Linux %s. Load average before: %s.\n\n", r.Machine.Processor, r.Machine.Processors, r.Machine.Kernel, r.Machine.Load)
	b.WriteString("| protocol | p50 | p99 |\n|---|---|---|\n")
	for _, protocol := range protocols {
		var p50, p99 []float64
		for _, f := range r.Figures {
			if f.Protocol == protocol {
				p50, p99 = append(p50, f.P50), append(p99, f.P99)
			}
		}
		slices.Sort(p50)
		slices.Sort(p99)
		fmt.Fprintf(&b, "| %s | %.0f µs | %.0f µs |\n", protocol, p50[len(p50)/2], p99[len(p99)/2])
	}
	b.WriteString("\nAsked: at most 1 ms.\n")
	return b.String()
}
