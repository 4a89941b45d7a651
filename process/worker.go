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
	maxFlight = 1024     // most tasks in hand of one worker
	pipeRoom  = 48 << 10 // bytes in its pipe, of 64 KiB, above which it gets no more
)

// worker is one worker process. Pool.mu guards the fields from state on. Those
// before are written once, by the goroutine that starts the worker, before it
// leaves the state starting; who reads them earlier (pid, child, in) holds
// Pool.mu, under which those are set.
type worker struct {
	pool      *Pool
	name      string
	slot      int   // of a process (Exec), from 1; the lowest that is free
	born      int64 // times since the pool's epoch
	age       int   // generation of the code it runs
	codec     wire.Codec
	talk      *frames.Session // codec, with Frames; nil otherwise
	page      *protocol.Page  // nil when the worker does not keep it
	hello     *frames.Hello   // nil before it is ready, and for other protocols
	child     *confine.Child
	pid       int
	tail      *tail // last lines of standard error
	in        *wire.Writer
	out       *wire.Reader
	memory    *confine.Memory
	isolation isolation
	talks     bool // the last process (Exec) had much to say; of who runs them

	// sentTo is the number of the last task that was encoded: an answer to a
	// later one is a lie. The encoder writes, the decoder reads.
	sentTo atomic.Uint32

	// reading is held by who decodes what the worker says: its own goroutine, or
	// a caller that spins.
	reading sync.Mutex
	turned  atomic.Bool // somebody found it held, and was turned away
	input   input

	state       lifecycle.Machine[WorkerState]
	flight      []*call // tasks in hand by number, a ring
	count       int     // of them
	alone       bool    // the one in hand is to have no others beside it
	bytes       int     // of their payloads in the pipe
	oldest      uint32  // number of the oldest in hand; next where there is none
	next        uint32  // number of the next task
	pending     []*call // given and not yet encoded
	control     []byte  // frames to send beside tasks
	writing     bool    // somebody encodes and writes
	broken      bool    // writing failed
	concurrency int
	served      int   // tasks answered
	tasks       int   // served before it is recycled, 0 for no bound
	expires     int64 // time of its recycling by age, 0 for none
	idleSince   int64
	keptAt      int64  // when KeptAlive was last told
	answeredAt  int64  // when its last answers came
	lately      int    // how many they were: so many callers may be about to submit
	overdue     int64  // when what it was asked must have happened, 0 for nothing
	recalled    uint32 // first number of the recall under way, 0 for none
	mine        uint32 // first number that was taken back by it
	owed        int    // tasks taken back that the worker has yet to return
	hint        error  // what may be wrong with a worker that does not answer
	spent       bool   // it is in its last tasks, or a successor is on its way
	successor   *worker
	nudgedAt    int64
	pingedAt    int64
	ponged      bool
	cause       Cause // why it leaves or was killed
	fault       error // how it broke the protocol
	killed      bool
	victim      *call          // the task for whose sake it was killed
	exited      bool           // the process has been reaped
	drained     bool           // all that it said has been decoded
	streams     int            // of its output that are still read
	wakeStreams []*wire.Reader // they, for its end to wake their readers
	exit        confine.Exit
	left        []leftover    // of processes (Exec), to be put away
	spare       string        // temporary folder for the next one
	usage       confine.Usage // what the kernel counted for it, once it has ended
	bound       int64         // bytes above which it is killed where memory is watched
	startErr    error         // it could not be started
	heavy       int64         // bytes above which it is recycled when it idles
	resident    int64         // bytes, when last looked
	place       lease
	lookedAt    int64
}

// newLines makes a codec of the protocol Lines.
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
	// Started by the keeper; ends when the process has; settle waits for it.
	go w.run()
}

// room is how many more tasks w can be given. Pool.mu is held.
func (w *worker) room() int {
	switch w.state.State() {
	case WorkerIdle, WorkerBusy:
	default:
		return 0
	}
	if w.alone && w.count > 0 || w.recalled != 0 || w.bytes >= pipeRoom || !w.sound() || w.pool.share != nil && !w.place.held {
		return 0
	}
	room := max(w.pool.window(), w.concurrency) - w.count
	if w.tasks > 0 {
		room = min(room, w.tasks-w.served-w.count)
	}
	if w.count > 0 {
		// Answers out of order leave holes: the ring holds numbers, not tasks.
		room = min(room, len(w.flight)-1-int(w.next-w.oldest))
	}
	return room
}

// sound reports whether w is neither dead nor about to be. What is given to one
// that has broken the protocol would be blamed for it. Pool.mu is held.
func (w *worker) sound() bool { return !w.killed && !w.exited && !w.broken }

// run starts the process, reads what it says, and accounts for its end.
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

// start makes the pipes and the process.
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
		_ = child.Kill() // that it has already ended is as good
		_, waitErr := child.Wait()
		return errors.Join(err, waitErr)
	}
	return nil
}

// spec says what to start, with the descriptors that the protocol needs.
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

// attach connects the host's ends, says hello, and begins to watch the process.
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
		// Before the watch, whose own deadline must be the last one.
		_ = out.SetDeadline(time.Now().Add(p.config.StartTimeout)) // a pipe has deadlines
	}
	// All end with the process; settle waits for them by the worker's fields,
	// the end of the pool by p.tasks.
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
		_, err = w.in.Write(hello[n:]) // only where pipes have no nonblocking end
		return err
	}
	return nil // a worker that is gone already is seen by the watch
}

// watch waits for the end of the process.
func (w *worker) watch() {
	p := w.pool
	exit, err := w.child.Wait()
	if err != nil {
		exit = confine.Exit{Code: -1}
		err = fmt.Errorf("waiting for worker %s: %w", w.name, err)
	}
	usage := w.isolation.usage()
	p.mu.Lock()
	usage.Peak = max(usage.Peak, w.usage.Peak) // where it was watched
	w.usage = usage
	w.exit, w.exited = exit, true
	if w.fault == nil {
		w.fault = err
	}
	streams := w.wakeStreams
	p.mu.Unlock()
	// Wakes the reader even when a grandchild keeps the pipe open; what the
	// worker had written is still read.
	_ = w.out.SetDeadline(time.Unix(1, 0))
	for _, r := range streams {
		_ = r.SetDeadline(time.Unix(1, 0))
	}
	p.settle(w)
}

// welcome makes w ready for tasks. Pool.mu is held.
func (p *Pool) welcome(w *worker, hello *frames.Hello, now int64) {
	if w.state.Move(WorkerStarting, WorkerIdle) != nil {
		return // it is to leave already
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
	if p.config.Protocol == Frames {
		p.startSucceeded()
	}
	p.idle = append(p.idle, w)
	p.showIdle()
	p.wakeReady()
	p.serve(w, now)
	p.madeRoom()
	p.wakeBy(now) // the keeper learns of its deadlines
}

// startSucceeded closes the breaker. Pool.mu is held.
func (p *Pool) startSucceeded() {
	if p.failures >= breakAfter {
		p.emit(Event{Kind: Mended})
	}
	p.failures, p.startErr, p.nextStart = 0, nil, 0
}
