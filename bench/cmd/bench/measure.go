package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	proc "github.com/bullpen-run/bullpen/bench/internal/cell"
	"github.com/bullpen-run/bullpen/bench/internal/machine"
	"golang.org/x/sys/unix"
)

// run is one run with all its figures, as it is kept in results.
type run struct {
	Name    string          `json:"name"`
	Date    time.Time       `json:"date"`
	Command string          `json:"command"`
	Rounds  int             `json:"rounds"`
	Span    string          `json:"span"`
	Lines   int             `json:"lines"`
	Machine machine.Machine `json:"machine"`
	Notes   []string        `json:"notes,omitempty"`
	Figures []measured      `json:"figures"`
}

// measured is what one cell gave in one round.
type measured struct {
	System     string             `json:"system"`
	Experiment string             `json:"experiment"`
	Round      int                `json:"round"`
	Load       string             `json:"load_before"`
	Others     float64            `json:"others_before_percent"` // of all processors, by other programs
	Seconds    float64            `json:"seconds"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	InFlight   string             `json:"in_flight,omitempty"`
	Notes      map[string]string  `json:"notes,omitempty"`
	Error      string             `json:"error,omitempty"`
}

// measure takes every cell once a round, each round in a new random order. A
// cell that fails keeps its error, and the others go on.
func (r *run) measure(ctx context.Context, p places, o options, cells []cell) error {
	for round := range o.rounds {
		var now []cell
		for _, c := range cells {
			if c.experiment.Rounds == 0 || round < c.experiment.Rounds {
				now = append(now, c)
			}
		}
		rand.Shuffle(len(now), func(i, k int) { now[i], now[k] = now[k], now[i] })
		for i, c := range now {
			m := take(ctx, p, o, c)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: the figures taken so far are kept", round+1)
			}
			m.Round = round + 1
			r.Figures = append(r.Figures, m)
			text := fmt.Sprint(m.Metrics)[3:]
			if m.Error != "" {
				text = "error: " + m.Error
			}
			fmt.Fprintf(os.Stderr, "%d/%d %3d/%d %-32s %s\n", round+1, o.rounds, i+1, len(now), c.id(), text)
		}
	}
	return nil
}

// take runs one cell in a process group of its own and ends what it leaves.
func take(ctx context.Context, p places, o options, c cell) measured {
	m := measured{System: c.system.ID, Experiment: c.experiment.ID, Others: machine.Others(ctx, o.patience), Load: machine.Load()}
	begin := time.Now()
	err := m.child(ctx, p, o, c)
	m.Seconds = time.Since(begin).Seconds()
	if m.Error == "" && err != nil {
		m.Error = err.Error()
	}
	m.Error = p.hide(m.Error)
	for key, text := range m.Notes {
		m.Notes[key] = p.hide(text)
	}
	return m
}

func (m *measured) child(ctx context.Context, p places, o options, c cell) error {
	args := c.system.command(p, c.experiment.ID, o)
	if c.experiment.ID == "rtt-one-core" {
		pinned, err := oneCore()
		if err != nil {
			return err
		}
		args = append(pinned, args...)
	}
	errs, err := os.Create(p.cached("stderr"))
	if err != nil {
		return err
	}
	defer func() { _ = errs.Close() }()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = filepath.Dir(p.bench)
	cmd.Stderr = errs
	cmd.Env = append(os.Environ(), "BENCH_BIN="+p.cached("bin"), "BENCH_PYTHON="+p.python(), "BENCH_DIR="+p.bench)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	bound := max(c.experiment.Bound, time.Minute)
	timer := time.AfterFunc(bound, func() { _ = out.Close() })
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	stop()
	inTime := timer.Stop()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // already gone: nothing to end
	_ = cmd.Wait()                                      // its status tells nothing: it is killed after its line
	endChildren()
	if !inTime {
		return fmt.Errorf("no result within %v", bound)
	}
	if err != nil {
		return fmt.Errorf("ended without a result: %s", tail(p.cached("stderr"), err))
	}
	return json.Unmarshal(line, m)
}

// tail gives the end of what a cell wrote to standard error, else err.
func tail(file string, err error) string {
	b, readErr := os.ReadFile(file)
	if b = bytes.TrimSpace(b); readErr != nil || len(b) == 0 {
		if errors.Is(err, io.EOF) {
			return "nothing on standard error"
		}
		return err.Error()
	}
	return string(b[max(0, len(b)-400):])
}

// becomeReaper makes this process the parent of what its children leave behind.
func becomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// endChildren kills and waits for every child of this process: between two cells
// there must be none. Their own children come to this process in turn.
func endChildren() {
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); {
		for _, pid := range proc.Children("") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // already gone: waited for below
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}
