package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// execute runs the task that was given to w, a place for one process, on a
// goroutine of its own. The caller has claimed w.
func (p *Pool) execute(w *worker) {
	p.mu.Lock()
	batch := w.pending
	w.pending = nil
	for _, c := range batch {
		w.sentTo.Store(c.number)
		p.tasks.Go(func() { p.runOnce(w, c) }) // ends with the process
	}
	p.release(w)
}

// oneShot is one process of the protocol Exec.
type oneShot struct {
	w      *worker
	c      *call
	tail   *tail
	cage   cage
	usage  confine.Usage
	child  *confine.Child
	output bytes.Buffer
	over   bool // the output was larger than its bound
	exit   confine.Exit
	err    error // it could not be started
}

// runOnce starts a process for c, feeds it, and tells its outcome.
func (p *Pool) runOnce(w *worker, c *call) {
	o := &oneShot{w: w, c: c, tail: newTail()}
	began := p.now()
	o.run()
	p.concluded(o, began)
	if err := p.freeCage(&o.cage); err != nil {
		p.logs.fault(fmt.Errorf("process of %s: what it left behind: %w", w.name, err))
	}
}

func (o *oneShot) run() {
	var made pipes
	if o.err = made.open(); o.err != nil {
		made.closeChild()
		made.closeHost()
		return
	}
	_ = made.out.child.Close()
	_ = made.out.host.Close()
	made.out = ends{}
	p := o.w.pool
	if o.cage, o.err = p.newCage(p.boundsOf(o.c)); o.err != nil {
		made.closeChild()
		made.closeHost()
		return
	}
	spec, usesInput := o.spec(&made)
	o.cage.enter(&spec)
	child, err := p.startProcess(spec)
	made.closeChild()
	if err != nil {
		made.closeHost()
		o.err = err
		return
	}
	o.child = child
	p.mu.Lock()
	o.w.child, o.w.pid, o.w.exited = child, child.Pid(), false
	o.w.bound, o.w.usage = o.c.memory, confine.Usage{}
	o.c.started = p.now()
	p.tally.started++
	p.emit(Event{Kind: Started, Worker: o.w.name, PID: child.Pid()})
	if o.c.cause != nil {
		p.askExec(o.w)
	}
	if o.c.timeout > 0 {
		p.wakeBy(o.c.started + int64(o.c.timeout))
	}
	p.mu.Unlock()
	o.feed(&made, usesInput)
}

// spec says what to start, and whether the payload goes to standard input.
func (o *oneShot) spec(made *pipes) (spec confine.Spec, usesInput bool) {
	cfg := o.w.pool.config
	t := &o.c.task
	args, usesInput := o.arguments()
	env := append([]string{}, cfg.env...)
	if t.ID != "" {
		env = append(env, "TASK_ID="+t.ID)
	}
	if t.Name != "" {
		env = append(env, "TASK_NAME="+t.Name)
	}
	if o.c.timeout > 0 {
		env = append(env, fmt.Sprintf("TASK_DEADLINE_MS=%d", time.Now().Add(o.c.timeout).UnixMilli()))
	}
	for k, v := range t.Meta {
		if !strings.ContainsAny(k, "=\x00") && !strings.ContainsRune(v, 0) {
			env = append(env, "TASK_META_"+k+"="+v)
		}
	}
	files := []*os.File{made.in.child, made.stdout.child, made.stderr.child}
	if !usesInput {
		files[0] = nil
	}
	return confine.Spec{Path: cfg.path, Args: args, Env: env, Dir: cfg.Dir, Files: files}, usesInput
}

// arguments makes those of the process: its configuration's, or the command's with
// the payload in the place of {}.
func (o *oneShot) arguments() (args []string, usesInput bool) {
	cfg := o.w.pool.config
	if cfg.Arguments != nil {
		args, usesInput = cfg.Arguments(o.c.task, o.w.slot)
		return append(cfg.args[:1:1], args...), usesInput
	}
	args = make([]string, len(cfg.args))
	usesInput = true
	for i, a := range cfg.args {
		args[i] = a
		if i > 0 && strings.Contains(a, "{}") {
			args[i] = strings.ReplaceAll(a, "{}", string(o.c.task.Payload))
			usesInput = false
		}
	}
	return args, usesInput
}

// freeSlot is the lowest number that no place for a process has. Pool.mu is held.
func (p *Pool) freeSlot() int {
	taken := make([]bool, len(p.workers)+2)
	for _, w := range p.workers {
		if w.slot < len(taken) {
			taken[w.slot] = true
		}
	}
	return 1 + slices.Index(taken[1:], false)
}

// feed writes the payload, reads the output, and waits for the end.
func (o *oneShot) feed(made *pipes, usesInput bool) {
	var all sync.WaitGroup
	all.Go(func() { // ends when the process has read all, or is dead
		if usesInput {
			_, _ = made.in.host.Write(o.c.task.Payload) // a process need not read it
		}
		_ = made.in.host.Close()
	})
	all.Go(func() { o.collect(made.stdout.host) }) // ends at its deadline or end of file
	all.Go(func() { o.hear(made.stderr.host) })    // the same
	exit, err := o.child.Wait()
	o.exit, o.err, o.usage = exit, err, o.cage.usage()
	p := o.w.pool
	p.mu.Lock()
	o.w.exited = true
	p.giveBack(o.w)
	p.mu.Unlock()
	// What it has left behind holds nobody up: Wait has killed its group, and
	// what has detached itself may keep the pipes.
	soon := time.Now().Add(p.config.Grace)
	_ = made.in.host.SetWriteDeadline(time.Unix(1, 0))
	_ = made.stdout.host.SetReadDeadline(soon)
	_ = made.stderr.host.SetReadDeadline(soon)
	all.Wait()
	_ = made.stdout.host.Close()
	_ = made.stderr.host.Close()
}

// collect reads the result, up to its bound; what is beyond is read and dropped,
// and the process killed.
func (o *oneShot) collect(file *os.File) {
	_, err := io.Copy(&o.output, io.LimitReader(file, int64(o.c.output)+1))
	if err == nil && o.output.Len() > o.c.output {
		o.over = true
		_ = o.child.Kill()
	}
}

// hear turns standard error into log records, unless the task's observer wants it
// whole.
func (o *oneShot) hear(file *os.File) {
	if to, ok := o.c.task.Observer.(StderrObserver); ok {
		o.hearAll(file, to)
		return
	}
	hear(file, newSplitter(o.w, o.c, o.tail, "stderr"))
}

// concluded tells the outcome of a process and frees its place.
func (p *Pool) concluded(o *oneShot, began int64) {
	w, c := o.w, o.c
	now := p.now()
	p.mu.Lock()
	o.usage.Peak = max(o.usage.Peak, w.usage.Peak) // where it was watched
	err := o.verdict()
	w.drop(c)
	w.served++
	w.oldest = w.next
	ran := now - began
	stats := bullpen.Stats{
		Waited: time.Duration(c.sent - c.accepted), Ran: time.Duration(ran), Worker: w.name, PeakMemory: max(o.exit.MaxRSS, o.usage.Peak),
	}
	result := bullpen.Result{Stats: stats}
	if err == nil {
		result.Payload = o.output.Bytes()
	}
	if o.child != nil {
		p.meanRun.add(ran)
		p.tally.run.add(ran)
		p.stopped(ByExit)
		p.emit(Event{Kind: Stopped, Worker: w.name, PID: w.pid, Cause: ByExit, Text: o.exit.String()})
	}
	p.end(c, result, err)
	w.child, w.pid, w.exited, w.killed, w.victim, w.cause = nil, 0, false, false, nil, ByIdle
	p.reuse(w, o.exit.MaxRSS)
	p.afterAnswers(w, now)
	mine := p.claim(w)
	p.mu.Unlock()
	p.deliver(c)
	if mine {
		p.flush(w, false)
	}
}

// verdict says how the process ended.
func (o *oneShot) verdict() error {
	c, w := o.c, o.w
	if o.child == nil {
		if errors.Is(o.err, syscall.E2BIG) || errors.Is(o.err, syscall.EINVAL) {
			return fmt.Errorf("%w: the payload cannot be an argument of a command: %w; leave {} out to pass it on standard input",
				bullpen.ErrRefused, o.err)
		}
		return &StartError{Command: w.pool.config.Command, Err: o.err, Failures: 1}
	}
	var te *bullpen.TaskError
	switch {
	case o.over:
		te = c.failed(w, bullpen.Output, tooLarge(o.output.Len(), c.output))
	case o.err != nil:
		te = c.failed(w, bullpen.Lost, o.err)
	case o.exit.Signal == 0 && o.exit.Code == 0:
		return nil
	case o.usage.OOMKills > 0 || w.killed && w.cause == ByBound:
		te = c.failed(w, bullpen.Memory, &MemoryError{Bound: c.memory, Peak: o.usage.Peak})
	case c.cause != nil:
		te = c.failed(w, reason(c.cause), c.cause)
	case o.exit.Signal != 0:
		te = c.failed(w, bullpen.Crashed, nil)
	default:
		te = c.failed(w, bullpen.Failed, nil)
		te.Message = fmt.Sprintf("exit status %d", o.exit.Code)
		if last := o.tail.last(); last != "" {
			te.Message += ": " + last
		}
	}
	te.ExitCode = o.exit.Code
	if o.exit.Signal != 0 {
		te.ExitCode, te.Signal = -1, o.exit.Signal.String()
	}
	te.Detail = o.tail.text()
	return te
}

// askExec asks the process in place w to end. Pool.mu is held.
func (p *Pool) askExec(w *worker) {
	if w.child != nil && !w.exited {
		_ = w.child.Terminate()
	}
}
