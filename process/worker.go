package process

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/internal/wire/frames"
	"github.com/bullpen-run/bullpen/internal/wire/lines"
	"github.com/bullpen-run/bullpen/protocol"
)

const (
	maxFlight = 1024     // most tasks assigned to one worker
	pipeRoom  = 48 << 10 // payload bytes in its 64 KiB pipe above which it gets no more tasks
)

// worker is one worker process. Pool.mu guards the fields from state on. The goroutine
// that starts the worker writes the fields before it once, while the state is starting.
// It sets pid, child and in under Pool.mu, for readers during the start.
type worker struct {
	pool      *Pool
	name      string
	slot      int   // with Exec: the lowest free number, from 1
	born      int64 // start time since the pool's epoch, like all times here
	age       int   // generation of its code, see Reload
	codec     wire.Codec
	talk      *frames.Session // same as codec with Frames; otherwise nil
	page      *protocol.Page  // nil if the worker does not use it
	hello     *frames.Hello   // nil before the worker is ready, and without Frames
	child     *confine.Child
	pid       int
	tail      *tail // last lines of standard error
	in        *wire.Writer
	out       *wire.Reader
	memory    *confine.Memory
	isolation isolation
	talks     bool // with Exec: the last process had much output; used only by runAll

	// sentTo is the number of the last encoded task; an answer to a later one is
	// invalid. The encoder writes it, the decoder reads it.
	sentTo atomic.Uint32

	// reading is held by the goroutine that decodes the worker's messages: the worker's
	// own, or a caller that spins.
	reading sync.Mutex
	turned  atomic.Bool // the worker's own goroutine found reading locked
	input   input

	state       lifecycle.Machine[WorkerState]
	flight      []*call // ring of assigned tasks, by number
	count       int     // number of assigned tasks
	alone       bool    // the assigned task must be the only one
	bytes       int     // of payloads in the pipe
	oldest      uint32  // number of the oldest assigned task; next without one
	next        uint32  // number of the next task
	pending     []*call // assigned, not yet encoded
	control     []byte  // frames to send besides tasks
	writing     bool    // a goroutine encodes and writes
	broken      bool    // writing failed
	concurrency int
	served      int   // tasks answered
	tasks       int   // number of tasks before it is recycled, 0 for no bound
	expires     int64 // when it is recycled by age, 0 for never
	idleSince   int64
	keptAt      int64  // time of the last KeptAlive event
	answeredAt  int64  // time of the last answers
	lately      int    // number of the last answers: as many callers may be about to submit
	overdue     int64  // when it is killed if it has not done what it was asked, 0 for never
	recalled    uint32 // first number of the current recall, 0 for none
	mine        uint32 // first number that the recall took back
	owed        int    // recalled tasks that the worker has not returned yet
	hint        error  // likely fault of a worker that does not answer
	spent       bool   // it has its last tasks, or is being replaced
	successor   *worker
	nudgedAt    int64
	pingedAt    int64
	ponged      bool
	cause       Cause // why it leaves or was killed
	fault       error // how it violated the protocol
	killed      bool
	victim      *call          // the task that it was killed for
	exited      bool           // the process has been reaped
	drained     bool           // all its messages have been decoded
	streams     int            // number of output streams still being read
	wakeStreams []*wire.Reader // these streams; watch wakes their readers
	exit        confine.Exit
	left        []leftover    // with Exec: what ended processes left
	spare       string        // with Exec: temporary folder for the next process
	usage       confine.Usage // set when it has ended; Peak also while memory is watched
	bound       int64         // bytes above which it is killed if memory is watched
	startErr    error         // why it could not be started
	heavy       int64         // bytes above which it is recycled when idle
	resident    int64         // bytes, as of lookedAt
	place       lease
	lookedAt    int64
}

// newLines returns a codec of the protocol Lines.
func (p *Pool) newLines() *lines.Codec {
	end := byte('\n')
	if p.config.NUL {
		end = 0
	}
	return &lines.Codec{End: end, Limit: p.config.Limits.Output}
}

// launch adds a worker and starts it. Pool.mu is held.
func (p *Pool) launch() {
	p.names++
	now := p.now()
	w := &worker{
		pool: p, name: p.config.Name + "-" + strconv.Itoa(p.names), born: now, age: p.age,
		concurrency: 1, flight: make([]*call, MaxWindow), oldest: 1, next: 1, tail: newTail(),
		pid: 0, lookedAt: now, bound: p.config.Limits.Memory,
	}
	w.state.Init(&workerStates, WorkerStarting)
	r := p.config.Recycle
	if r.Tasks > 0 {
		w.tasks = int(p.vary(int64(r.Tasks)))
	}
	if r.Memory > 0 {
		w.heavy = p.vary(r.Memory)
	}
	if r.Age > 0 {
		w.expires = now + p.vary(int64(r.Age))
	}
	if p.config.Protocol == Exec {
		w.slot = p.freeSlot()
	}
	p.workers = append(p.workers, w)
	p.starting++
	if p.config.Protocol == Exec {
		p.welcome(w, nil, now)
		return
	}
	// Ends when the process has ended; settle waits for it.
	go w.run()
}

// room returns how many more tasks can be assigned to w. Pool.mu is held.
func (w *worker) room() int {
	switch w.state.State() {
	case WorkerIdle, WorkerBusy:
	default:
		return 0
	}
	if w.alone && w.count > 0 || w.recalled != 0 || w.bytes >= w.pool.config.ahead || !w.sound() || w.pool.share != nil && !w.place.held {
		return 0
	}
	room := max(w.pool.window(), w.concurrency) - w.count
	if w.tasks > 0 {
		room = min(room, w.tasks-w.served-w.count)
	}
	if w.count > 0 {
		// Answers out of order leave holes: the ring is indexed by number.
		room = min(room, len(w.flight)-1-int(w.next-w.oldest))
	}
	return room
}

// sound reports whether w is neither dead nor about to be. A task given to a worker
// that has violated the protocol would be blamed for it. Pool.mu is held.
func (w *worker) sound() bool { return !w.killed && !w.exited && !w.broken }

// run starts the process, decodes its messages, and accounts for its end.
func (w *worker) run() {
	p := w.pool
	if err := w.start(); err != nil {
		p.mu.Lock()
		w.startErr = err
		w.exited, w.drained = true, true
		p.mu.Unlock()
		p.settle(w)
		return
	}
	if w.talk == nil {
		p.mu.Lock()
		p.welcome(w, nil, p.now())
		mine := p.claim(w)
		p.mu.Unlock()
		if mine {
			p.flush(w, false)
		}
	}
	w.read()
	p.mu.Lock()
	w.drained = true
	p.mu.Unlock()
	p.settle(w)
}

// start creates the pipes and starts the process.
func (w *worker) start() error {
	var made pipes
	defer made.closeChild()
	if err := made.open(); err != nil {
		made.closeHost()
		return err
	}
	var err error
	if w.isolation, err = w.pool.newIsolation(w.pool.config.bounds()); err != nil {
		made.closeHost()
		return err
	}
	spec, memory, err := w.spec(&made)
	if err != nil {
		made.closeHost()
		return err
	}
	child, err := w.pool.startProcess(spec)
	if err != nil {
		made.closeHost()
		if memory != nil {
			err = errors.Join(err, memory.Close())
		}
		return err
	}
	w.pool.mu.Lock()
	w.child, w.pid = child, child.Pid()
	if w.killed {
		w.pool.kill(w, w.cause, nil)
	}
	w.pool.mu.Unlock()
	if err := w.attach(&made, memory); err != nil {
		_ = child.Kill() // it may have ended already
		_, waitErr := child.Wait()
		return errors.Join(err, waitErr)
	}
	return nil
}

// spec returns what to start, with the descriptors that the protocol needs.
func (w *worker) spec(made *pipes) (spec confine.Spec, _ *confine.Memory, _ error) {
	defer func() { w.isolation.enter(&spec) }()
	c := w.pool.config
	spec = confine.Spec{Path: c.path, Args: c.args, Env: c.env, Dir: c.Dir}
	if c.Protocol == Lines {
		w.codec = w.pool.newLines()
		spec.Env = append(append([]string{}, c.env...), "PYTHONUNBUFFERED=1")
		spec.Files = made.standard()
		return spec, nil, nil
	}
	var memory *confine.Memory
	var bytes []byte
	if c.Arena > 0 {
		m, err := confine.NewMemory(w.name, max(c.Arena, 4*protocol.PageSize))
		if err == nil {
			memory, bytes = m, m.Bytes()
		} else if !errors.Is(err, errors.ErrUnsupported) {
			return spec, nil, err
		}
	}
	talk, err := frames.New(bytes, uint32(c.Limits.Output+protocol.DefaultFrame/64))
	if err != nil {
		return spec, memory, err
	}
	w.talk, w.codec = talk, talk
	var channel string
	spec.Files, channel = made.frames(memory)
	spec.Env = append(append([]string{}, c.env...), "BULLPEN_WORKER="+channel)
	return spec, memory, nil
}

// attach connects the host's ends of the pipes, sends the hello, and starts to watch
// the process.
func (w *worker) attach(made *pipes, memory *confine.Memory) error {
	p := w.pool
	in, err := wire.NewWriter(made.in.host)
	if err != nil {
		return err
	}
	out, err := wire.NewReader(made.out.host)
	if err != nil {
		return err
	}
	w.input.init(w)
	p.mu.Lock()
	w.in, w.out = in, out
	w.streams = 1
	if made.onStdio {
		_ = made.stdout.host.Close() // standard output is the channel
	} else {
		w.streams = 2
	}
	p.tally.started++
	p.emit(Event{Kind: Started, Worker: w.name, PID: w.pid})
	p.mu.Unlock()
	w.memory = memory
	if w.talk != nil {
		// Set before the watch starts, whose own deadline must be the last one.
		_ = out.SetDeadline(time.Now().Add(p.config.StartTimeout)) // pipes support deadlines
	}
	// All end with the process. settle waits for them by the worker's fields, the end
	// of the pool by p.tasks.
	p.tasks.Go(w.watch)
	p.tasks.Go(func() { w.hear(made.stderr.host, "stderr") })
	if !made.onStdio {
		p.tasks.Go(func() { w.hear(made.stdout.host, "stdout") })
	}
	if w.talk == nil {
		return nil
	}
	hello := w.talk.AppendHello(nil, w.name, w.pid, p.config.Limits.Output)
	if n, err := w.in.Try(hello); err == nil && n < len(hello) {
		_, err = w.in.Write(hello[n:]) // only where pipes cannot be nonblocking
		return err
	}
	return nil // watch notices a worker that has ended
}

// watch waits for the process to end.
func (w *worker) watch() {
	p := w.pool
	exit, err := w.child.Wait()
	if err != nil {
		exit = confine.Exit{Code: -1}
		err = fmt.Errorf("waiting for worker %s: %w", w.name, err)
	}
	usage := w.isolation.usage()
	p.mu.Lock()
	usage.Peak = max(usage.Peak, w.usage.Peak) // measured, if the pool watches memory
	w.usage = usage
	w.exit, w.exited = exit, true
	if w.fault == nil {
		w.fault = err
	}
	streams := w.wakeStreams
	p.mu.Unlock()
	// Wakes the readers even if a grandchild keeps the pipes open. They still read what
	// the worker had written.
	_ = w.out.SetDeadline(time.Unix(1, 0))
	for _, r := range streams {
		_ = r.SetDeadline(time.Unix(1, 0))
	}
	p.settle(w)
}

// welcome makes w ready for tasks. Pool.mu is held.
func (p *Pool) welcome(w *worker, hello *frames.Hello, now int64) {
	if w.state.Move(WorkerStarting, WorkerIdle) != nil {
		return // it is already leaving
	}
	p.starting--
	if hello != nil {
		w.hello, p.hello = hello, hello
		w.page = w.talk.Page()
		w.concurrency = hello.Concurrency
		for len(w.flight) < max(hello.Concurrency, p.config.Window) {
			w.flight = make([]*call, 2*len(w.flight))
		}
	} else if p.config.Window > len(w.flight) {
		w.flight = make([]*call, maxFlight)
	}
	w.idleSince, w.keptAt, w.answeredAt = now, now, now
	if p.config.Protocol != Exec {
		p.meanStart.add(now - w.born)
		p.tally.start.Add(time.Duration(now - w.born))
		p.emit(Event{Kind: Ready, Worker: w.name, PID: w.pid, Took: time.Duration(now - w.born)})
	}
	if p.config.greets {
		p.startSucceeded()
	}
	p.idle = append(p.idle, w)
	p.showIdle()
	p.wakeReady()
	p.serve(w, now)
	p.madeRoom()
	p.wakeBy(now) // so that the keeper sees its deadlines
}

// startSucceeded closes the breaker. Pool.mu is held.
func (p *Pool) startSucceeded() {
	if p.failures >= breakAfter {
		p.emit(Event{Kind: Mended})
	}
	p.failures, p.startErr, p.nextStart = 0, nil, 0
}
