// Command bench measures Bullpen's process pool beside its peers and beside what
// the machine gives without any pool, in one interleaved run: every figure is
// taken in a process of its own, and each round takes all of them in a new
// random order. It installs what it needs below ../.cache/bench.
//
//	go run ./cmd/bench          # all, about 40 minutes
//	go run ./cmd/bench -quick   # one short round
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
)

type options struct {
	rounds int
	span   time.Duration
	lines  int
	only   string
	name   string
	out    string
	quick  bool
	list   bool
	render string
	// patience is how long to wait for other programs before each figure.
	patience time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, parse())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often every figure is taken")
	flag.DurationVar(&o.span, "span", 2*time.Second, "how long one figure is measured")
	flag.IntVar(&o.lines, "lines", 10_000_000, "lines that the experiment lines sends")
	flag.StringVar(&o.only, "only", "", "take only cells whose SYSTEM/EXPERIMENT matches this regular expression")
	flag.StringVar(&o.name, "name", "full", "name of the run in the file of its results")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick or -only ../.cache/bench/results)")
	flag.DurationVar(&o.patience, "patience", 20*time.Second, "how long to wait, before each figure, for other programs to leave the processors")
	flag.BoolVar(&o.quick, "quick", false, "one round, 0.5 s a figure, 300000 lines, 1 s of patience")
	flag.BoolVar(&o.list, "list", false, "list the cells and end")
	flag.StringVar(&o.render, "render", "", "write the table of this file of results again and end")
	flag.Parse()
	if o.quick {
		o.rounds, o.span, o.lines, o.name = 1, 500*time.Millisecond, 300_000, "quick"
		o.patience = min(o.patience, time.Second)
	}
	return o
}

func bench(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	cells := plan(only)
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
		o.out = p.in("results")
		if o.quick || o.only != "" {
			o.out = p.cached("results")
		}
	}
	if o.render != "" {
		return rerender(o)
	}
	r := &run{Name: o.name, Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/bench"}, os.Args[1:]...), " "),
		Rounds: o.rounds, Span: o.span.String(), Lines: o.lines}
	if r.Notes, err = prepare(ctx, p, cells); err != nil {
		return err
	}
	r.Machine = describe(p)
	if err := becomeReaper(); err != nil {
		r.Notes = append(r.Notes, "workers that a cell leaves behind are not ended: "+err.Error())
	}
	broken := r.measure(ctx, p, o, cells)
	return errors.Join(broken, r.save(o.out))
}

// places are the folders that the run uses.
type places struct{ bench, cache string }

func (p places) in(name string) string     { return filepath.Join(p.bench, name) }
func (p places) cached(name string) string { return filepath.Join(p.cache, name) }
func (p places) bin(name string) string    { return filepath.Join(p.cache, "bin", name) }
func (p places) python() string            { return filepath.Join(p.cache, "venv", "bin", "python") }

// find looks for the folder of this module at and above the working directory.
func find() (places, error) {
	dir, err := os.Getwd()
	if err != nil {
		return places{}, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		b, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/bullpen-run/bullpen/bench\n") {
			cache := filepath.Join(filepath.Dir(at), ".cache", "bench")
			if err := os.MkdirAll(filepath.Join(cache, "bin"), 0o755); err != nil {
				return places{}, err
			}
			// The cache keeps itself out of version control.
			return places{at, cache}, os.WriteFile(filepath.Join(cache, ".gitignore"), []byte("*\n"), 0o644)
		}
		if at == filepath.Dir(at) {
			return places{}, fmt.Errorf("%s is not in the folder bench: go there first", dir)
		}
	}
}
