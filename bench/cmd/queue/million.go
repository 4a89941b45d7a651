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
	"sync"
	"syscall"
	"time"

	root "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// The stages of the experiment million, each in a process of its own: what starts
// must not have the memory of what has filled the queue.
const (
	fillStage  = ""      // enqueue, and stop well
	startStage = "start" // start, and work the first job
	dieStage   = "die"   // start, enqueue some more, and be killed
)

const (
	bulk = 10_000 // jobs for each call of EnqueueAll
	// settle is how long the queue is left alone before its memory is read.
	settle = time.Second
	// more jobs come before the kill, so that it hits a store that is being written.
	more = 20_000
)

// waiting measures a million jobs that wait.
func waiting(ctx context.Context, o options, s site) (metrics, error) {
	switch s.Stage {
	case startStage:
		return startWith(ctx, s)
	case dieStage:
		return nil, fillUntilKilled(ctx, s)
	}
	m, err := fill(ctx, o, s)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"clean", "killed"} {
		if kind == "killed" {
			if err := killInWork(ctx, s); err != nil {
				return nil, err
			}
		}
		s.Stage = startStage
		said, err := stage(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("the %s start: %w", kind, err)
		}
		m[kind+"_s"], m[kind+"_open_s"] = said["first_s"], said["open_s"]
		m[kind+"_rss_mb"], m[kind+"_peak_mb"] = said["rss_mb"], said["peak_mb"]
	}
	return m, nil
}

// fill enqueues all jobs and stops the queue.
func fill(ctx context.Context, o options, s site) (m metrics, err error) {
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(s.Folder)})
	if err != nil {
		return nil, err
	}
	m = metrics{"before_mb": resident("VmRSS"), "jobs": float64(o.jobs)}
	begin := time.Now()
	if err := enqueueMany(ctx, q, o.jobs); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	m["enqueue_rate"] = float64(o.jobs) / time.Since(begin).Seconds()
	rest(ctx)
	m["rss_mb"], m["peak_mb"] = resident("VmRSS"), resident("VmHWM")
	debug.FreeOSMemory()
	m["needed_mb"] = resident("VmRSS")
	if m["disk_mb"], err = size(s.Folder); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	begin = time.Now()
	err = q.Close()
	m["stop_s"] = time.Since(begin).Seconds()
	return m, err
}

// rest lets the queue alone for a while.
func rest(ctx context.Context) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
}

func enqueueMany(ctx context.Context, q *queue.Queue, n int) error {
	jobs := make([]queue.Job, 0, bulk)
	for i := range n {
		jobs = append(jobs, queue.Job{Queue: queueName, Name: "noop", Payload: payload(i)})
		if len(jobs) < bulk && i < n-1 {
			continue
		}
		if _, err := q.EnqueueAll(ctx, jobs); err != nil {
			return err
		}
		jobs = jobs[:0]
	}
	return nil
}

// startWith opens what is there and works until the first job has started.
func startWith(ctx context.Context, s site) (m metrics, err error) {
	first := make(chan struct{})
	var once sync.Once
	p, err := pool.New(pool.Config{Max: 1, Handlers: map[string]root.Handler{
		"noop": func(context.Context, root.Task) ([]byte, error) {
			once.Do(func() { close(first) })
			return nil, nil
		}}})
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(s.Folder)})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	defer func() { err = errors.Join(err, q.Close(), p.Close()) }()
	m = metrics{"open_s": time.Since(begin).Seconds()}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	// Started here, ends when stop is called; waited for below.
	go func() {
		worked <- q.Work(working, p, queue.WorkConfig{Queue: queueName, Concurrency: 1})
	}()
	select {
	case <-first:
		m["first_s"] = time.Since(begin).Seconds()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	stop()
	err = errors.Join(err, <-worked)
	rest(ctx)
	m["rss_mb"], m["peak_mb"] = resident("VmRSS"), resident("VmHWM")
	return m, err
}

// fillUntilKilled enqueues jobs, says that it does, and goes on until it is killed.
func fillUntilKilled(ctx context.Context, s site) error {
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(s.Folder)})
	if err != nil {
		return err
	}
	for {
		if err := enqueueMany(ctx, q, more); err != nil {
			return errors.Join(err, q.Close())
		}
		if _, err := fmt.Println("enqueued"); err != nil {
			return errors.Join(err, q.Close())
		}
	}
}

// stageCommand is this program in another stage of the experiment.
func stageCommand(ctx context.Context, s site) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	where, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-cell", bullpen+"/"+million, "-site", string(where))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// stage runs one stage and gives its figures.
func stage(ctx context.Context, s site) (metrics, error) {
	cmd, err := stageCommand(ctx, s)
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

// killInWork starts the queue and kills its process while it enqueues.
func killInWork(ctx context.Context, s site) error {
	s.Stage = dieStage
	cmd, err := stageCommand(ctx, s)
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
