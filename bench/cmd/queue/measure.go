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
	"path/filepath"
	"slices"
	"strconv"
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
	Span    string          `json:"span"`
	Jobs    int             `json:"jobs"`
	Stores  bool            `json:"stores,omitempty"` // a run of -stores
	Took    string          `json:"took"`
	Machine machine.Machine `json:"machine"`
	Notes   []string        `json:"notes,omitempty"`
	Cells   []measured      `json:"cells"`
}

// measured is what one cell gave in one round.
type measured struct {
	System     string  `json:"system"`
	Experiment string  `json:"experiment"`
	Round      int     `json:"round"`
	Load       string  `json:"load_before"`
	Others     float64 `json:"others_before_percent"` // of all processors, by other programs
	// SyncP50 and SyncMost are of some syncs of the disk before the cell.
	SyncP50  float64 `json:"sync_before_p50_ms,omitempty"`
	SyncMost float64 `json:"sync_before_most_ms,omitempty"`
	Seconds  float64 `json:"seconds"`
	Metrics  metrics `json:"metrics,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// bound ends a cell that hangs; a million jobs may take longer, and ten of them ten times
// as long.
const (
	bound        = 2 * time.Minute
	millionBound = 8 * time.Minute
)

// driver is what the cells of a run have in common.
type driver struct {
	o    options
	p    places
	gone missing
	self string // this program
}

// measure takes every cell once a round, each round in a new random order. A
// cell that fails keeps its error, and the others go on.
func (r *run) measure(ctx context.Context, o options, p places, gone missing, cells []cell) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d := driver{o, p, gone, self}
	begin := time.Now()
	defer func() { r.Took = time.Since(begin).Round(time.Second).String() }()
	for round := range o.rounds {
		rand.Shuffle(len(cells), func(i, k int) { cells[i], cells[k] = cells[k], cells[i] })
		for i, c := range cells {
			m := d.take(ctx, c)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d: the figures taken so far are kept", round+1)
			}
			m.Round, m.Error = round+1, p.hide(m.Error)
			r.Cells = append(r.Cells, m)
			text := m.Metrics.String()
			if m.Error != "" {
				text = "error: " + m.Error
			}
			fmt.Fprintf(os.Stderr, "%d/%d %2d/%d %-26s %4.1f s %s\n", round+1, o.rounds, i+1, len(cells), c.id(), m.Seconds, text)
		}
	}
	return nil
}

// take measures one cell in a process of its own, with the server it needs.
func (d driver) take(ctx context.Context, c cell) measured {
	m := measured{System: c.system.id, Experiment: c.experiment.id}
	for _, n := range c.system.needs {
		if err := d.gone[n]; err != nil {
			m.Error = fmt.Sprintf("%s is not to be had: %v", n, err)
			return m
		}
	}
	if err := d.serve(ctx, c, &m); err != nil {
		m.Error = err.Error()
	}
	return m
}

// serve starts what the cell needs, measures it and cleans up.
func (d driver) serve(ctx context.Context, c cell, m *measured) (err error) {
	folder, err := os.MkdirTemp(d.p.cached(""), "queue-cell-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Chmod(folder, 0o755); err != nil { // PostgreSQL's user goes through it
		return err
	}
	s := site{Folder: filepath.Join(folder, "store"), Work: c.experiment.work, Idle: c.experiment.id == idle, Worker: d.p.worker()}
	if c.experiment.beside {
		s.Beside = max(1, d.o.jobs/10)
	}
	if err := os.Mkdir(s.Folder, 0o755); err != nil {
		return err
	}
	var server *serverProcess
	for _, n := range c.system.needs {
		switch n {
		case redis:
			server, err = startRedis(ctx, folder, c.system.fsync)
		case postgres:
			server, err = startPostgres(ctx, folder)
		default:
			continue
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		if n == redis {
			s.Redis = server.address
		} else {
			s.Postgres = postgresURL(server.address)
		}
	}
	// What other cells have left unwritten must not be written in the time of this one.
	syscall.Sync()
	m.Others, m.Load = machine.Others(ctx, d.o.patience), machine.Load()
	if m.SyncP50, m.SyncMost, err = syncs(ctx, folder); err != nil {
		return err
	}
	begin := time.Now()
	err = d.run(ctx, c, s, m)
	m.Seconds = time.Since(begin).Seconds()
	return err
}

// someSyncs is how many syncs of the disk are timed before each cell.
const someSyncs = 100

// syncs gives what a sync of the disk takes now, in milliseconds.
func syncs(ctx context.Context, folder string) (p50, most float64, err error) {
	d, err := openDisk(false)(ctx, site{Folder: folder})
	if err != nil {
		return 0, 0, err
	}
	times := make([]time.Duration, someSyncs)
	for i := range times {
		begin := time.Now()
		if err := d.enqueue(ctx, payload(i)); err != nil {
			return 0, 0, errors.Join(err, d.close())
		}
		times[i] = time.Since(begin)
	}
	m := quantiles(times)
	return m["p50_ms"], m["most_ms"], d.close()
}

// command gives the program that takes the cell.
func (d driver) command(ctx context.Context, c cell, s site) (*exec.Cmd, error) {
	if c.system.open == nil {
		args := []string{c.experiment.id, s.Redis, strconv.FormatFloat(d.o.span.Seconds(), 'f', -1, 64), strconv.Itoa(c.experiment.callers)}
		if slices.Contains(c.system.needs, python) {
			cmd := exec.CommandContext(ctx, d.p.python(), append([]string{d.p.peers("python/cell.py")}, args...)...)
			cmd.Dir = s.Folder
			return cmd, nil
		}
		cmd := exec.CommandContext(ctx, "node", append([]string{"cell.mjs"}, args...)...)
		cmd.Dir = d.p.node()
		return cmd, nil
	}
	where, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, d.self, "-cell", c.id(), "-site", string(where), "-span", d.o.span.String(), "-jobs", strconv.Itoa(d.o.jobs)), nil
}

func (d driver) run(ctx context.Context, c cell, s site, m *measured) error {
	limit := bound
	if c.experiment.times > 0 {
		limit = millionBound * time.Duration(c.experiment.times)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd, err := d.command(ctx, c, s)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Env = clean(os.Environ())
	out, err := cmd.Output()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the cell has left behind
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no result within %v", limit)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail([]byte(strings.Join(strings.Fields(errs.String()), " "))))
	}
	var said answer
	if err := json.Unmarshal(out, &said); err != nil {
		return fmt.Errorf("%w: %s", err, tail(out))
	}
	m.Metrics, m.Error = said.Metrics, said.Error
	if said.Error != "" {
		return errors.New(said.Error)
	}
	return nil
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
