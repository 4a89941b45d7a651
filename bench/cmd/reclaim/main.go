// Command reclaim measures what it saves to let idle workers leave: the memory of
// a node with twenty kinds of tasks, each with its own Python worker, most of them
// rare, with the workers kept for ever, with an idle timeout, and with one budget
// for all. Every way of reclaiming gets the same tasks at the same times. Linux
// only.
//
//	go run ./cmd/reclaim          # a minute for each way, about five minutes
//	go run ./cmd/reclaim -quick   # 15 s each
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

type options struct {
	span     time.Duration
	gap      time.Duration
	patience time.Duration
	seed     uint64
	out      string
	quick    bool
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reclaim:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.DurationVar(&o.span, "span", time.Minute, "how long tasks arrive, for each way of reclaiming")
	flag.DurationVar(&o.gap, "gap", 200*time.Millisecond, "mean time between two tasks of all kinds")
	flag.DurationVar(&o.patience, "patience", 10*time.Second, "how long to wait, before each way, for other programs to leave the processors")
	flag.Uint64Var(&o.seed, "seed", 1, "of the random kinds and times")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick ../.cache/bench/results)")
	flag.BoolVar(&o.quick, "quick", false, "15 s for each way, no patience")
	flag.Parse()
	if o.quick {
		o.span, o.patience = 15*time.Second, 0
	}
	return o
}

func bench(ctx context.Context, o options) error {
	if o.span <= 0 || o.gap <= 0 {
		return errors.New("-span and -gap must be above zero")
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
	// The interpreter itself, not a version manager's script in front of it.
	found, err := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable); print(sys.version.split()[0])").Output()
	if err != nil {
		return fmt.Errorf("python3 does not run: %w", err)
	}
	python, version, _ := strings.Cut(strings.TrimSpace(string(found)), "\n")
	r := &run{
		Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/reclaim"}, os.Args[1:]...), " "),
		Kinds: len(kinds), Span: o.span.String(), Gap: o.gap.String(), Seed: o.seed, Machine: machine.Describe(),
	}
	r.Machine.Versions["python"] = version
	worker := []string{python, filepath.Join(folder, "workers", script)}
	for _, w := range ways {
		f := figures{Way: w.id, Title: w.title, Load: machine.Load(), Others: machine.Others(ctx, o.patience)}
		fmt.Fprintln(os.Stderr, "measuring:", w.title)
		if err := f.measure(ctx, o, w, worker); err != nil {
			return fmt.Errorf("%s: %w", w.title, err)
		}
		r.Figures = append(r.Figures, f)
	}
	return r.save(o.out)
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
