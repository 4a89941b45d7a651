// Command groups measures what limits and fairness by group cost: jobs end to end
// with a durable outcome, of no group and of 1, 16 and 256 groups whose limits do
// not bind; and how long jobs of one group wait alone, and beside 100 000 jobs of
// another. The store is embedded, the executor goroutines of this program. The
// cells of a round come one after the other, so that what disturbs one disturbs
// its neighbours too: read ratios. Linux only.
//
//	go run ./cmd/groups          # all, 5 rounds, about five minutes
//	go run ./cmd/groups -quick   # one short round
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

type options struct {
	rounds  int
	span    time.Duration
	backlog int
	only    string
	out     string
	quick   bool
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often every cell is taken")
	flag.DurationVar(&o.span, "span", 4*time.Second, "how long a cell is measured, after a warm-up of a quarter of it")
	flag.IntVar(&o.backlog, "backlog", 100_000, "how many jobs of the other group wait")
	flag.StringVar(&o.only, "only", "", "take only the experiment rate or wait")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick ../.cache/bench/results)")
	flag.BoolVar(&o.quick, "quick", false, "one round of 1 s a cell")
	flag.Parse()
	if o.quick {
		o.rounds, o.span = 1, time.Second
	}
	return o
}

func bench(ctx context.Context, o options) error {
	if o.rounds <= 0 || o.span <= 0 || o.backlog <= 0 {
		return errors.New("-rounds, -span and -backlog must be above zero")
	}
	folder, err := moduleFolder()
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(folder, "results")
		if o.quick {
			o.out = filepath.Join(filepath.Dir(folder), ".cache", "bench", "results")
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	r := &run{
		Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/groups"}, os.Args[1:]...), " "),
		Rounds: o.rounds, Span: o.span.String(), Backlog: o.backlog, Machine: machine.Describe(), Load: machine.Load(),
	}
	for round := range o.rounds {
		if err := r.round(ctx, o, round); err != nil {
			return err
		}
	}
	return r.save(o.out)
}

func (r *run) round(ctx context.Context, o options, round int) error {
	if o.only != "wait" {
		for i := range rates {
			n := rates[(i+round)%len(rates)] // nobody is first each time
			f, err := rate(ctx, n, o.span)
			if err != nil {
				return fmt.Errorf("rate of %d groups: %w", n, err)
			}
			fmt.Fprintf(os.Stderr, "round %d: %d groups: %.0f jobs/s, %.1f us of processor time each\n", round+1, n, f.PerSecond, f.CPU)
			r.Rates = append(r.Rates, f)
		}
	}
	if o.only == "rate" {
		return nil
	}
	for _, limit := range []int{places / 2, 0} {
		for _, backlog := range []int{0, o.backlog} {
			f, err := wait(ctx, backlog, limit, o.span)
			if err != nil {
				return fmt.Errorf("wait beside %d jobs: %w", backlog, err)
			}
			fmt.Fprintf(os.Stderr, "round %d: limit %d, beside %d jobs: wait p50 %v, p99 %v of %d\n", round+1, limit, backlog, f.P50, f.P99, f.Jobs)
			r.Waits = append(r.Waits, f)
		}
	}
	return nil
}

// moduleFolder looks for the folder of this module at and above the working
// directory.
func moduleFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		b, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/bullpen-run/bullpen/bench\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in the folder bench: go there first", dir)
		}
	}
}
