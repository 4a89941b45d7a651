package process

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

const (
	maxFlight = 1024     // most tasks assigned to one worker
	pipeRoom  = 48 << 10 // payload bytes in its 64 KiB pipe above which it gets no more tasks
)

// worker is one worker process.
type worker struct {
	// The goroutine that starts the worker writes these once, while the state is starting;
	// it sets pid and child under Pool.mu, for readers during the start.
	pool      *Pool
	name      string
	born      int64 // start time since the pool's epoch, like all times here
	age       int   // generation of its code, see Reload
	driver    driver
	spins     *stream // at which a caller may poll for its answer; nil if that does not pay off
	child     *confine.Child
	pid       int
	tail      *tail // last lines of standard error
	isolation isolation

	// sentTo is the number of the last task that was sent; an answer to a later one is
	// invalid. driver.send writes it.
	sentTo atomic.Uint32

	// Pool.mu guards all that follows. First the tasks that the worker has:
	state       lifecycle.Machine[WorkerState]
	flight      []*call // ring of assigned tasks, by number
	count       int     // number of assigned calls
	more        int     // how many more tasks than calls are assigned, with Config.Batch
	alone       bool    // the assigned task must be the only one
	bytes       int     // of payloads in the pipe
	oldest      uint32  // number of the oldest assigned task; next without one
	next        uint32  // number of the next task
	concurrency int
	served      int // tasks answered
	idleSince   int64
	keptAt      int64 // time of the last KeptAlive event
	answeredAt  int64 // time of the last answers
	lately      int   // number of the last answers: as many callers may be about to submit

	// What is to be written:
	pending []*call // assigned, not yet sent
	control []byte  // bytes to send besides tasks
	writing bool    // a goroutine has claimed it, and sends
	broken  bool    // nothing more can be sent to it

	// What it was asked besides tasks:
	overdue    int64 // when it is killed if it has not done what it was asked, 0 for never
	recallable bool  // tasks that it has not begun can be taken back
	paused     bool  // it must get no task
	hint       error // likely fault of a worker that does not answer

	// Its replacement:
	tasks     int   // number of tasks before it is recycled, 0 for no bound
	expires   int64 // when it is recycled by age, 0 for never
	heavy     int64 // bytes above which it is recycled when idle
	spent     bool  // it has its last tasks, or is being replaced
	successor *worker

	// Its memory, and its share of the budget:
	bound    int64         // bytes above which it is killed if memory is watched
	usage    confine.Usage // set when it has ended; Peak also while memory is watched
	resident int64         // bytes, as of lookedAt
	lookedAt int64
	lease    lease

	// Its end:
	cause    Cause // why it leaves or was killed
	fault    error // how it violated the protocol
	startErr error // why it could not be started
	killed   bool
	victim   *call // the task that it was killed for
	exit     confine.Exit
	exited   bool      // the process has been reaped
	drained  bool      // all its messages have been decoded
	streams  int       // number of output streams still being read
	printed  []printed // these streams; watch wakes their readers
}

// ringSize returns the size of a ring for that many tasks at a time and the holes that
// answers out of order leave: a power of two.
func ringSize(n int) int { return max(MaxWindow, 2<<bits.Len(uint(n))) }

// launch adds a worker and starts it. Pool.mu is held.
func (p *Pool) launch() {
	p.names++
	now := p.now()
	w := &worker{
		pool: p, name: p.config.Name + "-" + strconv.Itoa(p.names), born: now, age: p.age,
		concurrency: 1, flight: make([]*call, ringSize(p.config.Concurrency)), oldest: 1, next: 1, tail: newTail(),
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
	w.driver = p.config.drive(w)
	p.workers = append(p.workers, w)
	p.starting++
	w.driver.launch(now)
}

// room returns how many more tasks can be assigned to w. Pool.mu is held.
func (w *worker) room() int {
	switch w.state.State() {
	case WorkerIdle, WorkerBusy:
	default:
		return 0
	}
	if w.alone && w.count > 0 || w.paused || w.bytes >= w.pool.config.ahead || !w.sound() || w.pool.share != nil && !w.lease.held {
		return 0
	}
	room := max(w.pool.window(), w.concurrency) - w.count
	if w.tasks > 0 {
		room = min(room, w.tasks-w.served-w.count-w.more)
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

func (w *worker) isKilled() bool {
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	return w.killed
}

// run starts the process, speaks with it, and accounts for its end.
func (w *worker) run() {
	err := w.start()
	if err == nil {
		w.driver.converse()
	}
	w.pool.mu.Lock()
	if err != nil {
		w.startErr, w.exited = err, true
	}
	w.drained = true
	w.pool.mu.Unlock()
	w.pool.settle(w)
}

// start starts the process, and begins to watch it and to read what it prints.
func (w *worker) start() (err error) {
	p := w.pool
	var made pipes
	defer func() {
		made.closeChild()
		if err != nil {
			made.closeHost()
		}
	}()
	if w.isolation, err = p.fillIsolation(w.isolation, p.config.bounds()); err != nil {
		return err
	}
	spec := confine.Spec{Path: p.config.path, Args: p.config.args, Env: p.config.env, Dir: p.config.Dir}
	if err = w.driver.open(&spec, &made); err != nil {
		return err
	}
	w.isolation.enter(&spec)
	child, err := p.startProcess(spec)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.child, w.pid = child, child.Pid()
	p.counters.started++
	w.emit(Event{Kind: Started})
	w.overdueBy(p.now() + int64(p.config.StartTimeout))
	if w.killed {
		p.kill(w, w.cause, nil)
	}
	// All end with the process. settle waits for them by the worker's fields, the end
	// of the pool by p.tasks.
	p.tasks.Go(w.watch)
	for name, file := range map[string]*os.File{"stdout": made.stdout.host, "stderr": made.stderr.host} {
		if file != nil {
			w.streams++
			p.tasks.Go(func() { w.hear(file, name) })
		}
	}
	return nil
}

// emit emits an event about the process of w. A place for processes of one task each has
// none of its own. Pool.mu is held.
func (w *worker) emit(e Event) {
	if w.pool.config.perTask {
		return
	}
	e.Worker, e.PID = w.name, w.pid
	w.pool.emit(e)
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
	streams := w.printed
	p.mu.Unlock()
	// Wakes the readers even if a grandchild keeps the pipes open. They still read what
	// the worker had written.
	w.driver.ended()
	for _, s := range streams {
		_ = s.reader.SetDeadline(time.Unix(1, 0))
	}
	p.settle(w)
}

// ready makes w ready for tasks, and sends it those that wait.
func (w *worker) ready() {
	p := w.pool
	p.mu.Lock()
	p.welcome(w, p.now())
	mine := p.claim(w)
	p.mu.Unlock()
	if mine {
		w.driver.send()
	}
}

// welcome makes w ready for tasks. Pool.mu is held.
func (p *Pool) welcome(w *worker, now int64) {
	if w.state.Move(WorkerStarting, WorkerIdle) != nil {
		return // it is already leaving
	}
	p.starting--
	w.overdue = 0
	for len(w.flight) <= max(w.concurrency, p.config.Window) {
		w.flight = make([]*call, 2*len(w.flight)) // it has no task yet
	}
	w.idleSince, w.keptAt, w.answeredAt = now, now, now
	if !p.config.perTask { // a place is ready at once
		p.meanStart.add(now - w.born)
		p.counters.start.Add(time.Duration(now - w.born))
	}
	w.emit(Event{Kind: Ready, Took: time.Duration(now - w.born)})
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
