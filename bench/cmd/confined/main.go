// Command confined measures what it costs to keep workers from being bad
// neighbours, and what hides the cost of their starts: Python workers forked from
// a warm process, spares, control groups, sandboxes, and tasks that overrun their
// time, each beside what the machine gives without a pool. Every cell runs in a
// process of its own, and a round takes all cells in a new random order. Linux
// only.
//
//	go run ./cmd/confined          # all, about five minutes
//	go run ./cmd/confined -quick   # one short round
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

type options struct {
	rounds int
	only   string
	out    string
	render string
	quick  bool
	list   bool
	// patience is how long to wait for other programs, all in all.
	patience time.Duration
	// cell is set in the processes that measure: the one cell to take.
	cell string
}

// pick gives full, or short in a quick run.
func pick[T any](o options, full, short T) T {
	if o.quick {
		return short
	}
	return full
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := bench
	if o.cell != "" {
		do = child
	}
	err := do(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "confined:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "how often every cell is taken")
	flag.StringVar(&o.only, "only", "", "take only cells whose name matches this regular expression")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick or -only ../.cache/bench/results)")
	flag.DurationVar(&o.patience, "patience", 30*time.Second, "how long to wait for other programs to leave the processors, in the whole run")
	flag.BoolVar(&o.quick, "quick", false, "one short round, no patience")
	flag.BoolVar(&o.list, "list", false, "list the cells and end")
	flag.StringVar(&o.render, "render", "", "write the tables of this file of results again and end")
	flag.StringVar(&o.cell, "cell", "", "measure this one cell here and print its figures as JSON (the command starts itself so)")
	flag.Parse()
	if o.quick {
		o.rounds, o.patience = 1, 0
	}
	return o
}

func bench(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.rounds < 1 {
		return errors.New("-rounds must be above zero")
	}
	cells := plan(only)
	if o.list {
		for _, c := range cells {
			fmt.Println(c.id)
		}
		return nil
	}
	if len(cells) == 0 {
		return fmt.Errorf("-only %q matches no cell: see -list", o.only)
	}
	p, err := find()
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(p.bench, "results")
		if o.quick || o.only != "" {
			o.out = p.cached("results")
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if o.render != "" {
		return rerender(o)
	}
	r := &run{Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/confined"}, os.Args[1:]...), " "),
		Rounds: o.rounds, Quick: o.quick, Machine: machine.Describe()}
	if err := r.prepare(ctx, p); err != nil {
		return err
	}
	broken := r.measure(ctx, o, p, cells)
	return errors.Join(broken, r.save(o.out))
}
