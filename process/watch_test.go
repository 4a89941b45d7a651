//go:build unix

package process

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// journal is a logger that keeps everything: it sees what happens in a pool from
// the first moment on.
type journal struct {
	mu      *sync.Mutex
	records *[]entry // guarded by mu
	attrs   []slog.Attr
	slow    func() // called for every record, to be slow; may be nil
}

// entry is one record with its attributes as text.
type entry struct {
	time    time.Time
	level   slog.Level
	message string
	attrs   map[string]string
}

func newJournal() *journal { return &journal{mu: new(sync.Mutex), records: new([]entry)} }

func (j *journal) logger() *slog.Logger { return slog.New(j) }

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *j
	with.attrs = append(slices.Clone(j.attrs), attrs...)
	return &with
}

func (j *journal) WithGroup(string) slog.Handler { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	if j.slow != nil {
		j.slow()
	}
	e := entry{time: r.Time, level: r.Level, message: r.Message, attrs: map[string]string{}}
	for _, a := range j.attrs {
		e.attrs[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool { e.attrs[a.Key] = a.Value.String(); return true })
	j.mu.Lock()
	defer j.mu.Unlock()
	*j.records = append(*j.records, e)
	return nil
}

// all returns what has been logged until now.
func (j *journal) all() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(*j.records)
}

// events returns the events of one kind.
func (j *journal) events(k EventKind) []entry {
	return slices.DeleteFunc(j.all(), func(e entry) bool { return e.attrs["event"] != k.String() })
}

// lines returns what workers logged or printed.
func (j *journal) lines() []entry {
	return slices.DeleteFunc(j.all(), func(e entry) bool { return e.attrs["stream"] == "" })
}

// faults returns what must not happen.
func (j *journal) faults() []entry {
	return slices.DeleteFunc(j.all(), func(e entry) bool { return e.message != "fault in the pool" })
}

// tell gives the number of events by kind, for messages.
func (j *journal) tell() string {
	n := map[string]int{}
	for _, e := range j.all() {
		if kind := e.attrs["event"]; kind != "" {
			n[kind]++
		}
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(&b, "%d %s, ", n[kind], kind)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// awaitEvents waits until there are n events of a kind.
func (j *journal) awaitEvents(t *testing.T, k EventKind, n int) {
	t.Helper()
	poll(t, fmt.Sprintf("%d times %v", n, k), func() bool { return len(j.events(k)) >= n })
}

// wantNoFaults fails the test when the pool met something impossible.
func (j *journal) wantNoFaults(t *testing.T) {
	t.Helper()
	if f := j.faults(); len(f) > 0 {
		t.Errorf("%d faults in the pool, the first: %v", len(f), f[0].attrs)
	}
}

// marked returns the processes that have mark among their arguments.
func marked(mark string) (pids []int) {
	return processes(func(_ int, arguments string) bool {
		return slices.Contains(strings.Split(arguments, "\x00"), mark)
	})
}

// processes returns those that are wanted. Processes that have ended and were
// not waited for have no arguments.
func processes(wanted func(pid int, arguments string) bool) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && wanted(pid, string(b)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mentioned returns the processes that have mark anywhere in their arguments.
func mentioned(mark string) (pids []int) {
	return processes(func(_ int, arguments string) bool { return strings.Contains(arguments, mark) })
}

// descendants returns the children of a process and theirs.
func descendants(pid int) (pids []int) {
	parents := map[int]int{}
	processes(func(pid int, _ string) bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil {
			_, rest, _ := strings.Cut(string(b), ") ")
			var state string
			var parent int
			if _, err := fmt.Sscan(rest, &state, &parent); err == nil {
				parents[pid] = parent
			}
		}
		return false
	})
	todo := []int{pid}
	for len(todo) > 0 {
		parent := todo[0]
		todo = todo[1:]
		for child, of := range parents {
			if of == parent {
				pids, todo = append(pids, child), append(todo, child)
			}
		}
	}
	return pids
}

// markOf is an argument for the workers of t, by which they are found.
func markOf(t *testing.T) string {
	t.Helper()
	mark := fmt.Sprintf("mark-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	return mark
}

// workersOf returns the process numbers of the workers that live.
func workersOf(p *Pool) (pids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.pid != 0 && !w.exited {
			pids = append(pids, w.pid)
		}
	}
	return pids
}

// signalWorkers sends sig to every worker that is ready and returns how many there were. It
// goes through the handle of the process: the number that a worker has for
// itself, in its own PID namespace, is that of somebody else outside.
func signalWorkers(p *Pool, sig syscall.Signal) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.state.State() != WorkerStarting && w.child != nil && !w.exited && w.child.Signal(sig) == nil {
			n++
		}
	}
	return n
}

// awaitReady waits until n workers are ready.
func awaitReady(t *testing.T, p *Pool, n int) {
	t.Helper()
	if err := p.Ready(within(t, 30*time.Second), n); err != nil {
		t.Fatalf("Ready(%d): %v", n, err)
	}
}

// pause waits for d, where it is the passing of time that is tested.
func pause(d time.Duration) { <-time.After(d) }

// long reports whether there is time for long tests.
func long() bool { return os.Getenv("BULLPEN_LONG") != "" }

// stopWorkers suspends all workers, and waits until they stand still: a program
// with several threads runs on for a moment.
func stopWorkers(t *testing.T, p *Pool) {
	t.Helper()
	if signalWorkers(p, syscall.SIGSTOP) == 0 {
		t.Fatal("there is no worker to stop")
	}
	for _, pid := range workersOf(p) {
		poll(t, "the worker stands still", func() bool { return stateOf(pid) == "T" })
	}
}
