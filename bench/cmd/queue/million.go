package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The stages of the experiment million, each in a process of its own: what starts
// must not have the memory of what has filled the store.
const (
	fillStage  = ""      // enqueue, and stop well
	startStage = "start" // start, and hand out the first job
	dieStage   = "die"   // start, enqueue some more, and be killed
)

const (
	bulk = 10_000 // jobs for each call of EnqueueAll, and for each commit of a bare store
	// ends is how many jobs are the first ones, and how many the last.
	ends = 100_000
	// settle is how long the store is left alone before its memory is read.
	settle = time.Second
	// more jobs come before the kill, so that it hits a store that is being written.
	more = 20_000
)

// hoard is a store with jobs that wait.
type hoard interface {
	// put stores n more jobs, in bulk, and returns when all are confirmed.
	put(ctx context.Context, n int) error
	// first hands out the first job that waits, and returns when that was.
	first(ctx context.Context) (time.Time, error)
	// check fails unless least jobs wait, with those that first has handed out.
	check(ctx context.Context, least int) error
	// handed is how many jobs first has handed out, and taken off the store.
	handed() int
	close() error
}

// waiting measures many jobs that wait.
func (c cell) waiting(ctx context.Context, o options, s site) (metrics, error) {
	switch s.Stage {
	case startStage:
		return c.startWith(ctx, s)
	case dieStage:
		return nil, c.fillUntilKilled(ctx, s)
	}
	jobs := c.experiment.jobs(o)
	m, err := c.fill(ctx, jobs, s)
	if err != nil {
		return nil, err
	}
	s.Least = jobs
	for _, kind := range []string{"clean", "killed"} {
		if kind == "killed" {
			if err := c.killInWork(ctx, s); err != nil {
				return nil, err
			}
			s.Least += more
		}
		said, err := c.stage(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("the %s start: %w", kind, err)
		}
		s.Least -= int(said["handed"])
		m[kind+"_s"], m[kind+"_open_s"] = said["first_s"], said["open_s"]
		for _, key := range []string{"rss_mb", "own_mb", "peak_mb"} {
			m[kind+"_"+key] = said[key]
		}
	}
	return m, nil
}

// fill enqueues all jobs and stops the store.
func (c cell) fill(ctx context.Context, jobs int, s site) (m metrics, err error) {
	h, err := c.system.hoard(ctx, s)
	if err != nil {
		return nil, err
	}
	m = metrics{"before_mb": resident("VmRSS"), "jobs": float64(jobs)}
	if err := putTimed(ctx, h, jobs, m); err != nil {
		return nil, errors.Join(err, h.close())
	}
	rest(ctx)
	m["rss_mb"], m["own_mb"], m["peak_mb"] = resident("VmRSS"), resident("RssAnon"), resident("VmHWM")
	debug.FreeOSMemory()
	m["needed_mb"] = resident("VmRSS")
	m["disk_mb"], err = size(s.Folder)
	if err := errors.Join(err, h.check(ctx, jobs)); err != nil {
		return nil, errors.Join(err, h.close())
	}
	begin := time.Now()
	err = h.close()
	m["stop_s"] = time.Since(begin).Seconds()
	return m, err
}

// putTimed enqueues jobs and gives their rate, and the rate of the last of them by that
// of the first, which come to a store that is empty.
func putTimed(ctx context.Context, h hoard, jobs int, m metrics) error {
	end := max(1, min(ends, jobs/2))
	begin := time.Now()
	var took []time.Duration
	for _, n := range []int{end, jobs - 2*end, end} {
		part := time.Now()
		if err := h.put(ctx, n); err != nil {
			return err
		}
		took = append(took, time.Since(part))
	}
	m["enqueue_rate"] = float64(jobs) / time.Since(begin).Seconds()
	m["kept"] = took[0].Seconds() / took[2].Seconds()
	return nil
}

// rest lets the store alone for a while.
func rest(ctx context.Context) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
}

// startWith opens what is there and goes on until the first job has been handed out.
func (c cell) startWith(ctx context.Context, s site) (m metrics, err error) {
	begin := time.Now()
	h, err := c.system.hoard(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	m = metrics{"open_s": time.Since(begin).Seconds()}
	first, err := h.first(ctx)
	if err != nil {
		return nil, err
	}
	m["first_s"] = first.Sub(begin).Seconds()
	rest(ctx)
	m["rss_mb"], m["own_mb"], m["peak_mb"] = resident("VmRSS"), resident("RssAnon"), resident("VmHWM")
	m["handed"] = float64(h.handed())
	return m, h.check(ctx, s.Least)
}

// fillUntilKilled enqueues jobs, says that it does, and goes on until it is killed.
func (c cell) fillUntilKilled(ctx context.Context, s site) error {
	h, err := c.system.hoard(ctx, s)
	if err != nil {
		return err
	}
	for {
		if err := h.put(ctx, more); err != nil {
			return errors.Join(err, h.close())
		}
		if _, err := fmt.Println("enqueued"); err != nil {
			return errors.Join(err, h.close())
		}
	}
}

// stageCommand is this program in another stage of the experiment.
func (c cell) stageCommand(ctx context.Context, s site) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	where, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-cell", c.id(), "-site", string(where))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// stage starts with what is there, in a process of its own, and gives the figures.
func (c cell) stage(ctx context.Context, s site) (metrics, error) {
	s.Stage = startStage
	cmd, err := c.stageCommand(ctx, s)
	if err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var said answer
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, err
	}
	if said.Error != "" {
		return nil, errors.New(said.Error)
	}
	return said.Metrics, nil
}

// killInWork starts the store and kills its process while it enqueues.
func (c cell) killInWork(ctx context.Context, s site) error {
	s.Stage = dieStage
	cmd, err := c.stageCommand(ctx, s)
	if err != nil {
		return err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line := make([]byte, len("enqueued"))
	_, err = said.Read(line)
	if err == nil && string(line) != "enqueued" {
		err = fmt.Errorf("the program to be killed says %q", line)
	}
	if kill := cmd.Process.Signal(syscall.SIGKILL); kill != nil {
		err = errors.Join(err, kill)
	}
	_ = cmd.Wait() // it has been killed
	return err
}

// resident gives a figure of the memory of this process in MB, such as VmRSS now
// or VmHWM at the most; zero where there is none.
func resident(name string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		key, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); key == name && len(fields) == 2 {
			if kb, err := strconv.ParseFloat(fields[0], 64); err == nil {
				return kb / 1024
			}
		}
	}
	return 0
}

// size gives how many MB a folder has.
func size(dir string) (float64, error) {
	var bytes int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return float64(bytes) / (1 << 20), err
}
