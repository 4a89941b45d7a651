package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Engine is an [engine.Engine] that keeps its store in a folder.
type Engine struct {
	folder   folder
	options  engine.Options
	log      *slog.Logger
	space    space
	opened   uint64 // the last sequence number of Jobs when the store was opened
	handouts *handouts
	synced   *synced
	room     *room
	held     io.Closer // the lock of the folder
	queue    queue
	group    group // used by the committer
	syncs    syncs
	failure  failure
	oldest   [4]oldest        // used by the committer
	recent   [4]recent        // used by the committer
	firsts   [4]atomic.Uint64 // no message has a lower number

	files files  // open files of Pebble
	aside backup // files that Pebble writes for a backup

	open sync.RWMutex // held for reading by users of db
	db   *pebble.DB   // nil when closed; guarded by open

	stop    chan struct{}  // closed when Close begins
	ended   chan struct{}  // closed when Close has ended
	running sync.WaitGroup // takers and the clock
	writing chan struct{}  // closed when the committer has ended

	mu        sync.Mutex
	closed    bool                          // guarded by mu
	closing   error                         // the result of Close, when ended is closed; guarded by mu
	consumers map[engine.Consumer]*consumer // guarded by mu
	records   map[uint64]*record            // jobs in memory; guarded by mu
	hidden    map[uint64]struct{}           // jobs that are being removed; guarded by mu
	agenda    agenda                        // guarded by mu
	sums      sums                          // counts as of the last batch; the committer alone writes them, with mu held
	takers    map[*taker]struct{}           // guarded by mu

	wakeClock chan struct{} // something is due earlier
	next      atomic.Int64  // when the store next has something to do, in nanoseconds; 0 is never
}

var _ engine.Engine = (*Engine)(nil)

// Open opens the store in a folder. A store has one engine at a time.
func Open(ctx context.Context, c Config) (*Engine, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open the store: %w", context.Cause(ctx))
	}
	c = c.withDefaults()
	f := folder{c.FS, c.Dir}
	held, err := f.lock()
	if err != nil {
		return nil, err
	}
	e := newEngine(c, f, held)
	if err := e.begin(); err != nil {
		return nil, errors.Join(err, e.abandon())
	}
	e.start()
	return e, nil
}

func newEngine(c Config, f folder, held io.Closer) *Engine {
	e := &Engine{
		folder: f, options: c.Options, log: c.Options.Logger, held: held,
		stop: make(chan struct{}), ended: make(chan struct{}), writing: make(chan struct{}), wakeClock: make(chan struct{}, 1),
		consumers: map[engine.Consumer]*consumer{}, records: map[uint64]*record{}, hidden: map[uint64]struct{}{},
		takers: map[*taker]struct{}{},
	}
	e.room = newRoom(c, e.tableDebt)
	e.files.open = map[vfs.File]struct{}{}
	e.aside.stop, e.aside.logs = e.stop, map[string]*noted{}
	e.queue.wake = make(chan struct{}, 1)
	e.failure.failed, e.failure.halted = make(chan struct{}), make(chan struct{})
	return e
}

// begin opens the files.
func (e *Engine) begin() error {
	if err := e.folder.checkFormat(); err != nil {
		return err
	}
	if err := e.folder.breakSeal(e.log); err != nil {
		return err
	}
	if err := e.folder.checkSynced(); err != nil {
		return err
	}
	var err error
	if e.synced, err = e.folder.openSynced(); err != nil {
		return err
	}
	var db *pebble.DB
	err = e.untilHalt(func() (err error) {
		db, err = pebble.Open(e.folder.data().dir, e.pebble())
		return err
	})
	if err != nil {
		return e.storeError(err)
	}
	e.open.Lock()
	e.db = db
	e.open.Unlock()
	if e.space, err = e.numberOf(e.options.Namespace); err != nil {
		return e.storeError(err)
	}
	if e.sums, err = e.readSums(); err != nil {
		return e.storeError(err)
	}
	e.opened = e.sums.streams[engine.Jobs].last
	if err := errors.Join(e.readPauses(), e.readHighest()); err != nil {
		return e.storeError(err)
	}
	e.handouts, err = openHandouts(e.folder, func(h handout) (bool, error) {
		_, closer, err := db.Get(h.space.message(engine.Jobs, h.seq))
		if errors.Is(err, pebble.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, closer.Close()
	})
	return e.storeError(err)
}

// readHighest reads the highest keys of the indexes.
func (e *Engine) readHighest() error {
	for _, s := range []engine.Stream{engine.Jobs, engine.Outcomes, engine.Dead} {
		start := e.space.indexFrom(s, "")
		iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(start)})
		if err != nil {
			return err
		}
		highest := string(start)
		if iter.Last() {
			highest = string(iter.Key())
		}
		if err := iter.Close(); err != nil {
			return err
		}
		e.recent[s].begin(highest)
	}
	return nil
}

// readPauses reads the paused consumers.
func (e *Engine) readPauses() error {
	start := e.space.key(kindPaused, 0)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(start)})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for iter.First(); iter.Valid(); iter.Next() {
		queue, level, ok := strings.Cut(strings.TrimSuffix(string(iter.Key()[len(start):]), "\x00"), "\x00")
		if !ok {
			return errors.Join(errRecord, iter.Close())
		}
		e.consumer(consumerOf("job." + queue + "." + level + ".id")).paused = true
	}
	return iter.Close()
}

// storeError adds to an error which store it concerns and what to do.
func (e *Engine) storeError(err error) error {
	if err == nil {
		return nil
	}
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("the store in %s is damaged: %w: restore the folder from a backup, and check the disk", e.folder.data().dir, err)
	}
	return e.folder.explain(err)
}

// abandon closes what begin opened.
func (e *Engine) abandon() error {
	var errs []error
	if e.handouts != nil {
		errs = append(errs, e.handouts.close())
	}
	errs = append(errs, e.closeData())
	if e.synced != nil {
		errs = append(errs, e.synced.file.Close())
	}
	return errors.Join(errs...)
}

// numberOf returns the number of a namespace, which is assigned at its first use.
func (e *Engine) numberOf(name string) (space, error) {
	text, closer, err := e.db.Get(nameKey(name))
	if err == nil {
		defer closer.Close()
		if len(text) != 2 {
			return 0, errRecord
		}
		return space(binary.BigEndian.Uint16(text)), nil
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return 0, err
	}
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: nameKey(""), UpperBound: after(nameKey(""))})
	if err != nil {
		return 0, err
	}
	n := 1
	for iter.First(); iter.Valid(); iter.Next() {
		n++
	}
	if err := iter.Close(); err != nil {
		return 0, err
	}
	if n > 1<<16-1 {
		return 0, fmt.Errorf("the store has %d namespaces, the maximum", n-1)
	}
	return space(n), e.untilHalt(func() error {
		return e.db.Set(nameKey(name), binary.BigEndian.AppendUint16(nil, uint16(n)), pebble.Sync)
	})
}

// start starts the goroutines.
func (e *Engine) start() {
	e.next.Store(1) // something may be due already
	e.running.Add(1)
	go e.commitLoop() // ends when Close has ended the takers and the clock; shut waits for it
	go e.clock()      // ends with stop; shut waits for it
}

// failure records why the engine can no longer guarantee anything.
type failure struct {
	failed chan struct{}
	halted chan struct{} // closed when Pebble can no longer be used, not even closed

	once sync.Once // of halted

	mu  sync.Mutex
	err error // guarded by mu
}

// fail ends the engine for good. Pebble may call it with its locks held.
func (e *Engine) fail(cause error) {
	e.failure.mu.Lock()
	defer e.failure.mu.Unlock()
	if e.failure.err != nil {
		return
	}
	e.failure.err = fmt.Errorf("%w: %w; check the disk and its free space, then restart the program", engine.ErrFailed, cause)
	close(e.failure.failed)
	go e.reportFailure(cause) // ends when it has reported; no goroutine waits for it
}

// reportFailure does what fail must not do while Pebble holds its locks.
func (e *Engine) reportFailure(cause error) {
	e.log.Error("the store has failed", "folder", e.folder.dir, "error", cause)
	e.wakeAll()
}

// halt is like fail, for the places where Pebble would end the program or retry forever.
// To continue would not be safe, so the calling goroutine blocks until the process ends.
func (e *Engine) halt(cause error) {
	e.fail(cause)
	e.stopUse()
	select {}
}

// stopUse stops all use of Pebble.
func (e *Engine) stopUse() { e.failure.once.Do(func() { close(e.failure.halted) }) }

// isHalted reports whether Pebble can no longer be used.
func (e *Engine) isHalted() bool {
	select {
	case <-e.failure.halted:
		return true
	default:
		return false
	}
}

// untilHalt calls a function that may halt or panic, and returns even then. The goroutine
// of the call is lost if it halts.
func (e *Engine) untilHalt(call func() error) error {
	result := make(chan error, 1)
	go func() { // ends with the call, or never if that halts
		defer func() {
			if r := recover(); r != nil {
				e.fail(fmt.Errorf("the store: %v", r))
				e.stopUse()
			}
		}()
		result <- call()
	}()
	select {
	case err := <-result:
		return err
	case <-e.failure.halted:
		return e.Err()
	}
}

// Failed is closed when the store has failed.
func (e *Engine) Failed() <-chan struct{} { return e.failure.failed }

// Err returns why the store has failed.
func (e *Engine) Err() error {
	e.failure.mu.Lock()
	defer e.failure.mu.Unlock()
	return e.failure.err
}

// usable returns why e cannot be used.
func (e *Engine) usable() error {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return engine.ErrClosed
	}
	return e.Err()
}
