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

// execDriver starts a process for each task. Its worker is a place for one process.
type execDriver struct {
	base
	slot  int  // the lowest free number, from 1
	talks bool // the last process had much output; used only by the goroutine of send

	left  []leftover // what ended processes left; Pool.mu guards it
	spare string     // temporary folder for the next process; Pool.mu guards it
}

func driveExec(w *worker) driver { return &execDriver{base: base{w}} }

// launch makes the place ready at once: it costs nothing.
func (d *execDriver) launch(now int64) {
	d.slot = d.w.pool.freeSlot()
	d.w.pool.welcome(d.w, now)
}

// A place has no process to speak with.
func (d *execDriver) open(*confine.Spec, *pipes) error { return errors.ErrUnsupported }
func (d *execDriver) converse()                        {}
func (d *execDriver) ended()                           {}

// verdict is not asked for: concluded knows how each process ended.
func (d *execDriver) verdict(*call) verdict { return suspect }

// leave gives the place up.
func (d *execDriver) leave() {
	w := d.w
	w.exited, w.drained = true, true
	w.pool.tasks.Go(func() { w.pool.settle(w) }) // ends immediately
}

// close has the folder for the next process removed with the worker's isolation.
func (d *execDriver) close() {
	d.w.pool.mu.Lock()
	defer d.w.pool.mu.Unlock()
	d.w.isolation.temp, d.spare = d.spare, ""
}

// send runs the pending task, and then those that are assigned meanwhile, on a goroutine
// of its own.
func (d *execDriver) send() {
	c := d.take()
	d.w.pool.tasks.Go(func() { // ends when the worker has no task
		for c != nil {
			c = d.run(c)
		}
		d.tidy()
	})
}

// take returns the pending task, or nil, and ends the claim.
func (d *execDriver) take() (c *call) {
	w := d.w
	w.pool.mu.Lock()
	if len(w.pending) > 0 {
		c, w.pending = w.pending[0], w.pending[1:]
		w.sentTo.Store(c.number)
	}
	w.pool.release(w)
	return c
}

// run runs a process for c and delivers the outcome. It returns the task that was
// assigned meanwhile, or nil.
func (d *execDriver) run(c *call) *call {
	o := &oneShot{d: d, w: d.w, c: c, tail: newTail()}
	began := d.w.pool.now()
	o.run()
	if d.w.pool.concluded(o, began) {
		return d.take()
	}
	return nil
}

// cancel asks the process to end. One that has not started yet is asked then.
func (d *execDriver) cancel(*call) bool {
	if d.w.child != nil && !d.w.exited {
		_ = d.w.child.Terminate()
	}
	return true
}

// oneShot is the process of one task.
type oneShot struct {
	d      *execDriver
	w      *worker
	c      *call
	tail   *tail
	left   leftover
	usage  confine.Usage
	child  *confine.Child
	output bytes.Buffer
	wrote  int  // bytes of standard error
	over   bool // the output exceeded its bound
	exit   confine.Exit
	err    error // why it could not be started or waited for
}

func (o *oneShot) run() {
	p := o.w.pool
	args, usesInput := o.arguments()
	var made pipes
	fail := func(err error) {
		made.closeChild()
		made.closeHost()
		o.err = err
	}
	err := made.open(&made.stdout, &made.stderr)
	if err == nil && usesInput {
		err = made.open(&made.in)
	}
	if err != nil {
		fail(err)
		return
	}
	if n := len(o.c.task.Payload); usesInput && n <= leastRoom {
		// It fits into the pipe, so the write cannot block.
		_, err := made.in.host.Write(o.c.task.Payload)
		_ = made.in.host.Close()
		made.in.host = nil
		if err != nil {
			fail(err)
			return
		}
	}
	p.mu.Lock()
	o.left.isolation.temp, o.d.spare = o.d.spare, ""
	p.mu.Unlock()
	if o.left.isolation, err = p.fillIsolation(o.left.isolation, p.boundsOf(o.c)); err != nil {
		fail(err)
		return
	}
	spec := o.spec(args, &made)
	o.left.isolation.enter(&spec)
	child, err := p.startProcess(spec)
	made.closeChild()
	if err != nil {
		fail(err)
		return
	}
	o.child = child
	p.mu.Lock()
	o.w.child, o.w.pid, o.w.exited = child, child.Pid(), false
	o.w.bound, o.w.usage = o.c.memory, confine.Usage{}
	o.c.started = p.now()
	p.counters.started++
	p.emit(Event{Kind: Started, Worker: o.w.name, PID: child.Pid()})
	if o.c.cause != nil {
		o.d.cancel(o.c)
	}
	if o.c.timeout > 0 {
		p.wakeBy(o.c.started + int64(o.c.timeout))
	}
	p.mu.Unlock()
	o.left.pipes = [...]*os.File{made.stdout.host, made.stderr.host}
	o.d.tidy()
	o.feed(&made)
}

// spec returns what to start.
func (o *oneShot) spec(args []string, made *pipes) confine.Spec {
	cfg := o.w.pool.config
	t := &o.c.task
	env := append(make([]string, 0, len(cfg.env)+6), cfg.env...)
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
	return confine.Spec{Path: cfg.path, Args: args, Env: env, Dir: cfg.Dir, Files: files}
}

// arguments returns the arguments of the process, either from Config.Arguments or those
// of the command with {} replaced by the payload.
func (o *oneShot) arguments() (args []string, usesInput bool) {
	cfg := o.w.pool.config
	if cfg.Arguments != nil {
		args, usesInput = cfg.Arguments(o.c.task, o.d.slot)
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

// freeSlot returns the lowest free slot number. Pool.mu is held.
func (p *Pool) freeSlot() int {
	taken := make([]bool, len(p.workers)+2)
	for _, w := range p.workers {
		if d, ok := w.driver.(*execDriver); ok && d.slot < len(taken) {
			taken[d.slot] = true
		}
	}
	return 1 + slices.Index(taken[1:], false)
}

const (
	// leastRoom is the capacity in bytes that every pipe has at least.
	leastRoom = 4 << 10
	// listenAfter is how long a process runs before goroutines read its output. Most
	// processes have ended by then, with all their output in the pipes. A process that
	// fills a pipe waits until then.
	listenAfter = 2 * time.Millisecond
	// muchSaid is the output in bytes above which the next process in the slot is read
	// from the start.
	muchSaid = 16 << 10
)

// feed writes the rest of the payload, reads the output, and waits for the process to
// end.
func (o *oneShot) feed(made *pipes) {
	p := o.w.pool
	var all sync.WaitGroup
	if made.in.host != nil {
		all.Go(func() { // ends when the process has read all, or has ended
			_, _ = made.in.host.Write(o.c.task.Payload) // a process may not read it all
			_ = made.in.host.Close()
		})
	}
	stdout, stderr := &rest{File: made.stdout.host}, &rest{File: made.stderr.host}
	listen := func() {
		all.Go(func() { o.collect(stdout) }) // ends at its deadline or end of file
		all.Go(func() { o.hear(stderr) })    // likewise
	}
	stop := func() bool { return false }
	if o.d.talks {
		listen()
	} else {
		all.Add(1)
		timer := time.AfterFunc(listenAfter, func() {
			defer all.Done()
			listen()
		})
		stop = timer.Stop
	}
	exit, err := o.child.Wait()
	o.exit, o.err, o.usage = exit, err, o.left.isolation.usage()
	p.mu.Lock()
	o.w.exited = true
	p.giveBack(o.w)
	p.mu.Unlock()
	// Do not wait for leftover processes: Wait has killed the group, and a process that
	// has detached itself may keep the pipes open.
	soon := time.Now().Add(p.config.Grace)
	if made.in.host != nil {
		_ = made.in.host.SetWriteDeadline(time.Unix(1, 0))
	}
	_ = made.stdout.host.SetReadDeadline(soon)
	_ = made.stderr.host.SetReadDeadline(soon)
	if stop() {
		all.Done()
		o.collect(stdout)
		o.hear(stderr)
	}
	all.Wait()
	o.d.talks = o.output.Len() > muchSaid || o.wrote > muchSaid
}

// collect reads the result. If it exceeds its bound, collect kills the process.
func (o *oneShot) collect(file io.Reader) {
	_, err := io.Copy(&o.output, io.LimitReader(file, int64(o.c.output)+1))
	if err == nil && o.output.Len() > o.c.output {
		o.over = true
		_ = o.child.Kill()
	}
}

// hear turns standard error into log records, or passes it unchanged to a
// StderrObserver.
func (o *oneShot) hear(file io.Reader) {
	if to, ok := o.c.task.Observer.(StderrObserver); ok {
		o.hearAll(file, to)
		return
	}
	s := newSplitter(o.w, o.c, o.tail, "stderr")
	hear(file, s)
	o.wrote = s.read
}

// concluded delivers the outcome of a process and frees its slot. It reports whether
// the caller now has a claim on w for tasks assigned meanwhile.
func (p *Pool) concluded(o *oneShot, began int64) bool {
	w, c := o.w, o.c
	now := p.now()
	p.mu.Lock()
	o.usage.Peak = max(o.usage.Peak, w.usage.Peak) // measured, if the pool watches memory
	err := o.verdict()
	o.d.left = append(o.d.left, o.left)
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
		p.counters.run.Add(time.Duration(ran))
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
	return mine
}

// verdict returns how the task ended: nil for a result.
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
