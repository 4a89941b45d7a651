// Command queue measures the durable queue beside its peers and beside the bare
// engine under it, in one interleaved run: durable enqueue, enqueue to durable
// outcome, enqueue to start on an idle system, and a million jobs that wait; or bare
// embedded stores beside each other and the disk alone. Every
// cell runs in a process of its own, the servers of the peers run only while their
// cells do, and a round takes all cells in a new random order. Linux only.
//
//	go run ./cmd/queue            # all, 3 rounds
//	go run ./cmd/queue -quick     # one short round
//	go run ./cmd/queue -stores    # the bare stores
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
	"runtime"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds int
	span   time.Duration
	jobs   int
	only   string
	out    string
	name   string
	render string
	quick  bool
	list   bool
	stores bool
	ten    bool
	// patience is how long to wait for other programs before each cell.
	patience time.Duration
	// cell and site are set in the processes that measure: the one cell to take, and
	// where.
	cell, site string
}

func main() {
	// The servers end with the thread that has started them, should this process be
	// killed; only the main thread lives as long as the process.
	runtime.LockOSThread()
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := bench
	if o.cell != "" {
		do = child
	}
	err := do(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "how often every cell is taken")
	flag.DurationVar(&o.span, "span", 4*time.Second, "how long a rate is measured, after a warm-up of a quarter of it")
	flag.IntVar(&o.jobs, "jobs", fullJobs, "how many jobs wait in the experiment million; in tenmillion ten times as many")
	flag.StringVar(&o.only, "only", "", "take only cells whose SYSTEM/EXPERIMENT matches this regular expression")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick or -only ../.cache/bench/results)")
	flag.StringVar(&o.name, "name", "queue", "name of the run, in the name of its raw file (with -stores, store)")
	flag.DurationVar(&o.patience, "patience", 10*time.Second, "how long to wait, before each cell, for other programs to leave the processors")
	flag.BoolVar(&o.quick, "quick", false, "one round, 1 s a rate, 100 000 jobs, no patience")
	flag.BoolVar(&o.stores, "stores", false, "bare embedded stores and the disk alone, instead of job queues")
	flag.BoolVar(&o.ten, "ten", false, "the experiment tenmillion too")
	flag.BoolVar(&o.list, "list", false, "list the cells and end")
	flag.StringVar(&o.render, "render", "", "write the tables of this file of results again and end")
	flag.StringVar(&o.cell, "cell", "", "measure this one cell here and print its figures as JSON (the command starts itself so)")
	flag.StringVar(&o.site, "site", "", "where the cell finds what it needs, as JSON")
	flag.Parse()
	if o.quick {
		o.rounds, o.span, o.jobs, o.patience = 1, time.Second, 100_000, 0
	}
	if o.stores && o.name == "queue" {
		o.name = "store"
	}
	return o
}

func bench(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.rounds < 1 || o.span <= 0 || o.jobs < 1 {
		return errors.New("-rounds, -span and -jobs must be above zero")
	}
	cells := plan(choice{only: only, stores: o.stores, ten: o.ten})
	if o.list {
		for _, c := range cells {
			fmt.Println(c.id())
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
	r := &run{Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/queue"}, os.Args[1:]...), " "),
		Rounds: o.rounds, Span: o.span.String(), Jobs: o.jobs, Stores: o.stores, Machine: describe()}
	ready, err := r.prepare(ctx, p, cells)
	if err != nil {
		return err
	}
	broken := r.measure(ctx, o, p, ready, cells)
	return errors.Join(broken, r.save(o))
}
