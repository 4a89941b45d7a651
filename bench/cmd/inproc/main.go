// Command inproc measures Bullpen's in-process pool beside its peers and beside
// what Go gives without any pool, in one interleaved run: every figure is taken
// in a process of its own, and each round takes all of them in a new random order.
//
//	go run ./cmd/inproc          # all, about 20 minutes
//	go run ./cmd/inproc -quick   # one short round
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
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds int
	span   time.Duration
	only   string
	procs  string
	out    string
	render string
	quick  bool
	list   bool
	perf   bool
	// patience is how long to wait for other programs before each figure.
	patience time.Duration
	// cell is set in the processes that measure: the one cell to take.
	cell string
}

func main() {
	o := parse()
	if o.cell != "" {
		if err := child(o); err != nil {
			fmt.Fprintln(os.Stderr, "inproc:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "inproc:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often every figure is taken")
	flag.DurationVar(&o.span, "span", 100*time.Millisecond, "how long one figure is measured, after a warm-up")
	flag.StringVar(&o.only, "only", "", "take only cells whose SYSTEM/EXPERIMENT matches this regular expression")
	flag.StringVar(&o.procs, "procs", "1,2", "values of GOMAXPROCS, with commas between them")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick or -only ../.cache/bench/results)")
	flag.DurationVar(&o.patience, "patience", 10*time.Second, "how long to wait, before each figure, for other programs to leave the processors")
	flag.BoolVar(&o.quick, "quick", false, "one round, 20 ms a figure, no patience")
	flag.BoolVar(&o.list, "list", false, "list the cells and end")
	flag.BoolVar(&o.perf, "perf", false, "count instructions too, where the machine has counters")
	flag.StringVar(&o.render, "render", "", "write the tables of this file of results again and end")
	flag.StringVar(&o.cell, "cell", "", "measure this one cell here and print its figures as JSON (the command starts itself so)")
	flag.Parse()
	if o.quick {
		o.rounds, o.span, o.patience = 1, 20*time.Millisecond, 0
	}
	return o
}

func bench(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	procs, err := numbers(o.procs)
	if err != nil {
		return fmt.Errorf("-procs: %w", err)
	}
	if o.rounds < 1 || o.span <= 0 {
		return fmt.Errorf("-rounds and -span must be above zero")
	}
	cells := plan(only, procs)
	if o.list {
		for _, c := range cells {
			fmt.Println(c.id(), "GOMAXPROCS", c.procs)
		}
		return nil
	}
	if len(cells) == 0 {
		return fmt.Errorf("-only %q matches no cell: see -list", o.only)
	}
	if o.out, err = place(o); err != nil {
		return err
	}
	if o.render != "" {
		return rerender(o)
	}
	r := &run{Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/inproc"}, os.Args[1:]...), " "),
		Rounds: o.rounds, Span: o.span.String(), Procs: procs, Machine: describe()}
	if o.perf {
		if _, err := openCounters(hardware); err != nil {
			r.Notes = append(r.Notes, "no instruction counts: "+err.Error())
			o.perf = false
		}
	}
	broken := r.measure(ctx, o, cells)
	return errors.Join(broken, r.save(o.out))
}

// numbers reads a list such as "1,2".
func numbers(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number above zero", part)
		}
		all = append(all, n)
	}
	return all, nil
}

// place gives the folder for the results, and makes it: beside the full runs, or
// in the cache for what must not replace one.
func place(o options) (string, error) {
	dir := o.out
	if dir == "" {
		bench, err := moduleFolder()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(bench, "results")
		if o.quick || o.only != "" {
			dir = filepath.Join(filepath.Dir(bench), ".cache", "bench", "results")
		}
	}
	return dir, os.MkdirAll(dir, 0o755)
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
