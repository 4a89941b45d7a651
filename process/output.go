package process

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
)

// record is one entry for the log or an observer: an event of the pool, a line or the
// progress of a task, or an internal fault.
type record struct {
	event    Event
	line     bullpen.LogLine
	worker   string
	task, id string
	observer bullpen.Observer
	said     *said    // of the task; nil without an observer
	others   []record // of a shared call: the observers of its tasks, each with its said
	progress bool
	fraction float64
	fault    error
}

// of sets the task of the record to c. Pool.mu is held.
func (r *record) of(c *call) {
	r.task, r.id, r.observer = c.task.Name, c.task.ID, c.task.Observer
	if r.observer != nil {
		r.said = c.says()
	}
	if c.members == nil {
		return
	}
	for _, m := range c.members.calls {
		if m != nil && m.task.Observer != nil {
			r.others = append(r.others, record{observer: m.task.Observer, said: m.says()})
		}
	}
}

// watched reports whether anyone observes the task of the record.
func (r *record) watched() bool { return r.observer != nil || len(r.others) > 0 }

// logDepth is the most records that wait for the logger.
const logDepth = 4096

// logs passes records to the logger and to observers, off the path of tasks. It drops
// and counts records that arrive faster than they take them.
type logs struct {
	logger *slog.Logger
	tell   func(*call) // delivers the outcome of a task that waited for its observer
	queue  chan record
	rate   logRate
	lost   atomic.Uint64
	over   atomic.Uint64 // lines dropped by the rate
	// deafUntil is the Unix time in nanoseconds until which events up to Info are skipped.
	deafUntil atomic.Int64
	done      chan struct{}
	once      sync.Once
	ended     chan struct{}
}

// observe calls tell for each observer.
func (r *record) observe(tell func(bullpen.Observer)) {
	if r.observer != nil {
		tell(r.observer)
	}
	for _, other := range r.others {
		tell(other.observer)
	}
}

func newLogs(logger *slog.Logger, rate int64, tell func(*call)) *logs {
	l := &logs{logger: logger, rate: logRate{logger: logger, rate: float64(rate), quotas: map[string]*quota{}}, tell: tell, queue: make(chan record, logDepth), done: make(chan struct{}), ended: make(chan struct{})}
	// Ends when the pool closes l; close waits for it.
	go l.run()
	return l
}

// deafFor is how long events of a level that the logger has disabled are skipped. The
// level may be enabled meanwhile, and the logger is not called under a lock.
const deafFor = time.Second

// deaf reports whether events like e are skipped. Waking the log goroutine for them
// would cost as much as the rest of an event.
func (l *logs) deaf(e Event) bool {
	return e.level() <= slog.LevelInfo && e.Time.UnixNano() < l.deafUntil.Load()
}

// put queues r, or drops it and reports false. It never blocks.
func (l *logs) put(r record) bool {
	select {
	case l.queue <- r:
		return true
	default:
		l.lost.Add(1)
		l.heardAll(r)
		return false
	}
}

// heard records that the observer of a task has received a record, or never will.
func (l *logs) heard(s *said) {
	if s == nil {
		return
	}
	if c := s.heard(); c != nil {
		l.tell(c)
	}
}

// heardAll is heard for all observers of r.
func (l *logs) heardAll(r record) {
	l.heard(r.said)
	for _, other := range r.others {
		l.heard(other.said)
	}
}

// fault logs an internal error: a refused move of a state machine, or an error without
// a caller.
func (l *logs) fault(err error) {
	if err != nil {
		l.put(record{fault: err})
	}
}

// close writes the remaining records, for at most a second, and ends the goroutine.
func (l *logs) close() {
	l.once.Do(func() { close(l.done) })
	select {
	case <-l.ended:
	case <-time.After(time.Second):
	}
}

func (l *logs) run() {
	defer close(l.ended)
	defer l.rate.tell()
	for {
		select {
		case r := <-l.queue:
			l.write(r)
		case <-l.rate.timer:
			l.rate.tell()
		case <-l.done:
			for {
				select {
				case r := <-l.queue:
					l.write(r)
				default:
					return
				}
			}
		}
	}
}

func (l *logs) write(r record) {
	defer func() {
		l.heardAll(r)
		if p := recover(); p != nil { // an observer is user code
			l.logger.Error("an observer panicked", "panic", p)
		}
	}()
	ctx := context.Background()
	switch {
	case r.fault != nil:
		l.logger.ErrorContext(ctx, "fault in the pool", "error", r.fault)
	case r.event.Kind != 0:
		l.writeEvent(ctx, r.event)
	case r.progress:
		r.observe(func(o bullpen.Observer) { o.Progress(r.fraction, r.line.Text) })
	default:
		r.observe(func(o bullpen.Observer) { o.Log(r.line) })
		if level := slog.Level(r.line.Level); l.logger.Enabled(ctx, level) {
			if !l.rate.allows(r.worker, len(r.line.Text)+1, r.line.Time) {
				l.over.Add(1)
				return
			}
			l.logger.LogAttrs(ctx, level, "output", slog.String("text", r.line.Text), slog.String("worker", r.worker), slog.String("task", r.task),
				slog.String("id", r.id), slog.String("stream", r.line.Stream))
		}
	}
}

func (l *logs) writeEvent(ctx context.Context, e Event) {
	if level := e.level(); level <= slog.LevelInfo && !l.logger.Enabled(ctx, slog.LevelInfo) {
		l.deafUntil.Store(e.Time.Add(deafFor).UnixNano())
		if !l.logger.Enabled(ctx, level) {
			return
		}
	}
	attrs := []slog.Attr{slog.String("event", e.Kind.String())}
	if e.Worker != "" {
		attrs = append(attrs, slog.String("worker", e.Worker), slog.Int("pid", e.PID))
	}
	switch e.Kind {
	case Retired, Stopped, Died:
		attrs = append(attrs, slog.String("cause", e.Cause.String()))
	case Ready:
		attrs = append(attrs, slog.Duration("took", e.Took))
	default:
	}
	if e.Text != "" {
		attrs = append(attrs, slog.String("text", e.Text))
	}
	l.logger.LogAttrs(ctx, e.level(), "event", attrs...)
}

// hear turns what the worker prints outside the protocol into log records, until the
// end of file, or until the worker has ended and its output is read.
func (w *worker) hear(file *os.File, stream string) {
	p := w.pool
	defer file.Close()
	defer func() {
		p.mu.Lock()
		w.streams--
		if w.mute() {
			p.wakeBy(0) // its driver may have to look
		}
		p.mu.Unlock()
		p.settle(w)
	}()
	reader, err := wire.NewReader(file)
	if err != nil {
		p.logs.fault(err)
		return
	}
	p.mu.Lock()
	s := newSplitter(w, nil, w.tail, stream)
	w.printed = append(w.printed, printed{reader, s})
	exited := w.exited
	p.mu.Unlock()
	if !exited {
		// An error means that the worker has ended; its output is still there.
		err = reader.Wait(s.pump)
	}
	if exited || err != nil {
		_ = reader.Control(func(fd uintptr) { s.pump(fd) })
	}
	s.flush()
}

// printed is one output stream of a worker.
type printed struct {
	reader   *wire.Reader
	splitter *splitter
}

// mute reports whether w has closed its output, but lives. Pool.mu is held.
func (w *worker) mute() bool { return w.child != nil && w.streams == 0 && !w.exited }

// catchUp reads what the worker has printed so far, so that it belongs to the task that the
// worker is about to end.
func (w *worker) catchUp() {
	w.pool.mu.Lock()
	all := w.printed
	w.pool.mu.Unlock()
	for _, p := range all {
		_ = p.reader.Control(func(fd uintptr) { p.splitter.catchUp(fd) }) // an error means that its end has been read
		p.splitter.flush()
	}
}

// running returns the task that w runs, as far as known, or nil. Pool.mu is held.
func (w *worker) running() *call {
	if w.count == 0 {
		return nil
	}
	number, _ := w.driver.runs()
	if c := w.flight[int(number)&(len(w.flight)-1)]; c != nil && c.number == number {
		return c
	}
	return nil
}

// Bounds of the kept part of a worker's standard error.
const (
	tailLines = 20
	tailBytes = 4 << 10
)

// tail keeps the last lines of a worker's standard error.
type tail struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	bytes int      // guarded by mu
}

func newTail() *tail { return &tail{} }

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.bytes += len(line) + 1
	for len(t.lines) > tailLines || t.bytes > tailBytes && len(t.lines) > 1 {
		t.bytes -= len(t.lines[0]) + 1
		t.lines = t.lines[1:]
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(t.lines, "\n")
	return text[max(0, len(text)-tailBytes):]
}

// last returns the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	return t.lines[len(t.lines)-1]
}
