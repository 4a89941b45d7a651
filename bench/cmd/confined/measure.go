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
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// run is one run with all its figures, as it is kept in results.
type run struct {
	Date    time.Time       `json:"date"`
	Command string          `json:"command"`
	Rounds  int             `json:"rounds"`
	Quick   bool            `json:"quick,omitempty"`
	Took    string          `json:"took"`
	Machine machine.Machine `json:"machine"`
	Notes   []string        `json:"notes,omitempty"`
	Cells   []measured      `json:"cells"`
}

// measured is what one cell gave in one round.
type measured struct {
	Cell    string  `json:"cell"`
	Round   int     `json:"round"`
	Load    string  `json:"load_before"`
	Others  float64 `json:"others_before_percent"` // of all processors, by other programs
	Seconds float64 `json:"seconds"`
	// Rows are the figures by row of the tables, and by key; the keys carry the unit.
	Rows  map[string]metrics `json:"rows,omitempty"`
	Error string             `json:"error,omitempty"`
}

// metrics are figures by key.
type metrics map[string]float64

// bound ends a cell that hangs.
const bound = time.Minute

// measure takes every cell once a round, each round in a new random order. A
// cell that fails keeps its error, and the others go on.
func (r *run) measure(ctx context.Context, o options, p places, cells []cell) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	begin := time.Now()
	defer func() { r.Took = time.Since(begin).Round(time.Second).String() }()
	patience := o.patience
	for round := range o.rounds {
		rand.Shuffle(len(cells), func(i, k int) { cells[i], cells[k] = cells[k], cells[i] })
		for i, c := range cells {
			before := time.Now()
			m := measured{Cell: c.id, Round: round + 1, Others: machine.Others(ctx, patience), Load: machine.Load()}
			if waited := time.Since(before); waited > time.Second/4 { // more than one look
				patience = max(0, patience-waited)
			}
			err := m.child(ctx, self, o)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: the figures taken so far are kept", round+1)
			}
			if err != nil && m.Error == "" {
				m.Error = err.Error()
			}
			m.Error = p.hide(m.Error)
			r.Cells = append(r.Cells, m)
			text := fmt.Sprint(m.Rows)[3:]
			if m.Error != "" {
				text = "error: " + m.Error
			}
			fmt.Fprintf(os.Stderr, "%d/%d %2d/%d %-24s %4.1f s %s\n", round+1, o.rounds, i+1, len(cells), c.id, m.Seconds, text)
		}
	}
	return nil
}

// child takes the cell in a process of its own, in a process group of its own,
// which is killed as a whole when the cell hangs.
func (m *measured) child(ctx context.Context, self string, o options) error {
	ctx, stop := context.WithTimeout(ctx, bound)
	defer stop()
	args := []string{"-cell", m.Cell}
	if o.quick {
		args = append(args, "-quick")
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Env = clean(os.Environ())
	begin := time.Now()
	out, err := cmd.Output()
	m.Seconds = time.Since(begin).Seconds()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no result within %v", bound)
	}
	if err != nil {
		text := strings.Join(strings.Fields(errs.String()), " ")
		return fmt.Errorf("%w: %s", err, text[:min(len(text), 400)])
	}
	var said answer
	if err := json.Unmarshal(out, &said); err != nil {
		return err
	}
	m.Rows, m.Error = said.Rows, said.Error
	return nil
}

// answer is what the process that takes a cell prints.
type answer struct {
	Rows  map[string]metrics `json:"rows,omitempty"`
	Error string             `json:"error,omitempty"`
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

// child measures the cell that o names in this process and prints its figures.
func child(ctx context.Context, o options) error {
	c, err := lookUp(o.cell)
	if err != nil {
		return err
	}
	p, err := find()
	if err != nil {
		return err
	}
	var a answer
	if a.Rows, err = c.take(ctx, o, p); err != nil {
		a = answer{Error: err.Error()}
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}
