package executortest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// familyVariable names the environment variable that makes this test binary a
// worker of a family, and by which all that belongs to one is found.
const familyVariable = "BULLPEN_FAMILY"

// family is the smallest executor whose tasks run in other processes: a
// reference whose handlers hand the task to a worker process and wait. It kills
// workers that shall end or hold too much memory, without asking.
type family struct {
	*reference

	folder  string // of the temporary folders
	memory  int64
	mark    string
	wrong   wrong
	ending  sync.WaitGroup // of those who wait for answers of workers
	crashed func()         // called when a worker has died

	mu   sync.Mutex
	idle []*relative // guarded by mu
	born int         // guarded by mu
}

// wrong is what a family does not do as it should.
type wrong struct {
	leavesDetached bool                           // processes that detached themselves live on
	waitsForEnd    bool                           // a worker that does not answer is waited for
	sharedTemp     bool                           // there is one temporary folder for all
	leavesTemp     bool                           // temporary folders stay
	leavesDead     bool                           // nobody waits for a dead worker
	memory         func(*bullpen.TaskError) error // makes another error of a memory death
	stderr         io.Writer
}

// relative is a worker process.
type relative struct {
	name    string
	command *exec.Cmd
	temp    string
	in      *gob.Encoder
	out     *gob.Decoder
	pipes   [2]io.Closer
}

// reply is what a worker answers.
type reply struct {
	Payload []byte
	Failed  bool
	Panic   bool
	Message string
}

// serveFamily is the main function of a worker. What handlers print goes to
// standard error. It reads on while a task runs, so that the end of its host ends
// that too, and a task that waits for nothing else is no deadlock to the runtime.
func serveFamily() {
	ctx, hostEnds := context.WithCancel(context.Background())
	tasks := make(chan bullpen.Task)
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr
	go func() { // ends with the process or its input
		defer close(tasks)
		defer hostEnds()
		for {
			var t bullpen.Task
			if in.Decode(&t) != nil {
				return
			}
			tasks <- t
		}
	}()
	for t := range tasks {
		if out.Encode(serveOne(ctx, t)) != nil {
			return
		}
	}
}

func serveOne(ctx context.Context, t bullpen.Task) (r reply) {
	defer func() {
		if thrown := recover(); thrown != nil {
			r = reply{Failed: true, Panic: true, Message: fmt.Sprint(thrown)}
		}
	}()
	payload, err := Handlers()[t.Name](ctx, t)
	if err != nil {
		return reply{Failed: true, Message: err.Error()}
	}
	return reply{Payload: payload}
}

var families atomic.Int64

func newFamily(t *testing.T, o Options, w wrong) *family {
	t.Helper()
	f := &family{folder: t.TempDir(), memory: o.Bounds.Memory, wrong: w, mark: fmt.Sprintf("%d-%d", os.Getpid(), families.Add(1)), crashed: func() {}}
	handlers := map[string]bullpen.Handler{}
	for name := range Handlers() {
		handlers[name] = f.handle
	}
	f.reference = newReference(handlers, o)
	t.Cleanup(f.sweep) // after Close, and whatever is wrong
	return f
}

func (f *family) Guarantees() bullpen.Guarantees {
	_, canSee := residentSize(os.Getpid())
	return bullpen.Guarantees{Preemptive: true, CrashProof: true, Exact: true, OrphanProof: canSee, MemoryBound: canSee}
}

func (f *family) Drain(ctx context.Context) error {
	return errors.Join(f.reference.Drain(ctx), f.bury())
}
func (f *family) Stop(ctx context.Context) error { return errors.Join(f.reference.Stop(ctx), f.bury()) }
func (f *family) Close() error                   { return errors.Join(f.reference.Close(), f.bury()) }

// bury ends all workers, and what they left.
func (f *family) bury() error {
	f.mu.Lock()
	idle := f.idle
	f.idle = nil
	f.mu.Unlock()
	for _, r := range idle {
		_ = f.end(r)
	}
	f.ending.Wait()
	if f.wrong.leavesDetached {
		return nil
	}
	f.sweep()
	return nil
}

// sweep kills all that belongs to the family.
func (f *family) sweep() {
	for {
		left := withVariable(familyVariable, f.mark)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			n, _ := strconv.Atoi(pid)
			if p, err := os.FindProcess(n); err == nil {
				_ = p.Kill()
				_ = p.Release()
			}
		}
	}
}

// handle serves every task, in a worker.
func (f *family) handle(ctx context.Context, t bullpen.Task) ([]byte, error) {
	r, err := f.take()
	if err != nil {
		return nil, err
	}
	ctx.Value(statsOf{}).(*bullpen.Stats).Worker = r.name
	answers := make(chan reply, 1)
	f.ending.Go(func() { // ends with the answer or the worker; bury waits for it
		var a reply
		if r.in.Encode(t) == nil && r.out.Decode(&a) == nil {
			answers <- a
		}
		close(answers)
	})
	tooMuch, stop := f.watch(r)
	defer stop()
	select {
	case a, alive := <-answers:
		if !alive {
			return nil, f.died(r)
		}
		f.giveBack(r)
		if a.Failed {
			o := bullpen.Failed
			if a.Panic {
				o = bullpen.Panic
			}
			return nil, &bullpen.TaskError{Outcome: o, Message: a.Message, Retryable: true, ExitCode: -1}
		}
		return a.Payload, nil
	case peak := <-tooMuch:
		_ = r.command.Process.Kill()
		err := f.died(r)
		err.Outcome, err.Message = bullpen.Memory, fmt.Sprintf("the worker had %d bytes of memory, its bound is %d bytes", peak, f.memory)
		if f.wrong.memory != nil {
			return nil, f.wrong.memory(err)
		}
		return nil, err
	case <-ctx.Done():
		if f.wrong.waitsForEnd {
			<-answers
		}
		_ = f.end(r)
		return nil, context.Cause(ctx)
	}
}

// died buries a worker that ended while it ran a task.
func (f *family) died(r *relative) *bullpen.TaskError {
	awaitEnd(r.command.Process.Pid)
	state := f.end(r)
	f.crashed()
	te := &bullpen.TaskError{Outcome: bullpen.Crashed, Message: "the worker died", ExitCode: -1}
	if state == nil {
		te.Signal = "unknown"
	} else if te.ExitCode = state.ExitCode(); te.ExitCode < 0 {
		te.Signal = strings.TrimPrefix(state.String(), "signal: ")
		te.Signal, _, _ = strings.Cut(te.Signal, " (core dumped)")
	}
	return te
}

// watch looks at the memory of a worker and tells when it is too much.
func (f *family) watch(r *relative) (tooMuch <-chan int64, stop func()) {
	found, quit := make(chan int64, 1), make(chan struct{})
	if f.memory > 0 {
		go func() { // ends with the task
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				if n, ok := residentSize(r.command.Process.Pid); ok && n > f.memory {
					found <- n
					return
				}
				select {
				case <-tick.C:
				case <-quit:
					return
				}
			}
		}()
	}
	return found, func() { close(quit) }
}

func (f *family) take() (*relative, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.idle); n > 0 {
		r := f.idle[n-1]
		f.idle = f.idle[:n-1]
		return r, nil
	}
	f.born++
	return f.start(fmt.Sprint("relative ", f.born))
}

func (f *family) giveBack(r *relative) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, r)
}

func (f *family) start(name string) (*relative, error) {
	r := &relative{name: name, command: exec.Command(os.Args[0])}
	r.command.Env = append(os.Environ(), familyVariable+"="+f.mark, "GORACE=atexit_sleep_ms=0")
	r.command.Stderr = f.wrong.stderr
	if !f.wrong.sharedTemp {
		var err error
		if r.temp, err = os.MkdirTemp(f.folder, "temp"); err != nil {
			return nil, err
		}
		r.command.Env = append(r.command.Env, "TMPDIR="+r.temp)
	}
	in, err := r.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.in, r.out, r.pipes = gob.NewEncoder(in), gob.NewDecoder(out), [2]io.Closer{in, out}
	return r, r.command.Start()
}

// end kills a worker and waits for it.
func (f *family) end(r *relative) *os.ProcessState {
	_ = r.command.Process.Kill()
	if f.wrong.leavesDead {
		return nil
	}
	_ = r.command.Wait()
	if !f.wrong.leavesTemp {
		_ = os.RemoveAll(r.temp)
	}
	return r.command.ProcessState
}

// awaitEnd gives a process that has closed its end of the channel a moment to end
// by itself, so that its own end is what is reported.
func awaitEnd(pid int) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range 50 {
		if s := stat(strconv.Itoa(pid)); s == nil || s[0] == "Z" {
			return
		}
		<-look.C
	}
}

// residentSize gives the memory of a process in bytes, where it can be seen.
func residentSize(pid int) (int64, bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, false
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0, false
	}
	return resident * int64(os.Getpagesize()), true
}
