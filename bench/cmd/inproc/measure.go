package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// run is one run with all its figures, as it is kept in results.
type run struct {
	Date    time.Time       `json:"date"`
	Command string          `json:"command"`
	Rounds  int             `json:"rounds"`
	Span    string          `json:"span"`
	Procs   []int           `json:"gomaxprocs"`
	Machine machine.Machine `json:"machine"`
	Notes   []string        `json:"notes,omitempty"`
	Figures []measured      `json:"figures"`
}

// measured is what one cell gave in one round.
type measured struct {
	System     string             `json:"system"`
	Experiment string             `json:"experiment"`
	Procs      int                `json:"gomaxprocs"`
	Round      int                `json:"round"`
	Load       string             `json:"load_before"`
	Others     float64            `json:"others_before_percent"` // of all processors, by other programs
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	Error      string             `json:"error,omitempty"`
}

// bound ends a cell that hangs.
const bound = time.Minute

// measure takes every cell once a round, each round in a new random order. A
// cell that fails keeps its error, and the others go on.
func (r *run) measure(ctx context.Context, o options, cells []cell) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for round := range o.rounds {
		rand.Shuffle(len(cells), func(i, k int) { cells[i], cells[k] = cells[k], cells[i] })
		for i, c := range cells {
			m := take(ctx, self, o, c)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: the figures taken so far are kept", round+1)
			}
			m.Round = round + 1
			r.Figures = append(r.Figures, m)
			text := fmt.Sprint(m.Metrics)[3:]
			if m.Error != "" {
				text = "error: " + m.Error
			}
			fmt.Fprintf(os.Stderr, "%d/%d %3d/%d %-28s %d %s\n", round+1, o.rounds, i+1, len(cells), c.id(), c.procs, text)
		}
	}
	return nil
}

// take measures one cell in a process of its own.
func take(ctx context.Context, self string, o options, c cell) measured {
	m := measured{Others: machine.Others(ctx, o.patience), Load: machine.Load()}
	if err := m.child(ctx, self, o, c); err != nil && m.Error == "" {
		m.Error = err.Error()
	}
	m.System, m.Experiment, m.Procs = c.system.ID, c.experiment.ID, c.procs
	return m
}

func (m *measured) child(ctx context.Context, self string, o options, c cell) error {
	ctx, stop := context.WithTimeout(ctx, bound)
	defer stop()
	args := []string{"-cell", c.id(), "-span", o.span.String()}
	if o.perf {
		args = append(args, "-perf")
	}
	cmd := exec.CommandContext(ctx, self, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Env = append(clean(os.Environ()), "GOMAXPROCS="+strconv.Itoa(c.procs))
	out, err := cmd.Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no result within %v", bound)
	}
	if err != nil {
		text := strings.Join(strings.Fields(errs.String()), " ")
		return fmt.Errorf("%w: %s", err, text[:min(len(text), 400)])
	}
	return json.Unmarshal(out, m)
}

// clean leaves out what would change how a Go program runs.
func clean(env []string) (rest []string) {
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK":
		default:
			rest = append(rest, e)
		}
	}
	return rest
}
