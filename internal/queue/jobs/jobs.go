package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Config is a queue's Config without its store, with all defaults filled in.
type Config struct {
	Node                  string
	Lease                 time.Duration
	Retry                 job.Retry
	KeyWindow             time.Duration
	Keep                  job.Keep
	MaxPayload, MaxResult int
	Refuse                func(queue string, t bullpen.Task) error
	Logger                *slog.Logger
	Ended                 func(*job.Info)
}

// Jobs manages the jobs of one namespace in their store.
type Jobs struct {
	Config   Config
	Self     string // identifies this opening of the queue among all nodes
	Engine   engine.Engine
	Above    above
	Journal  journal
	Damages  atomic.Uint64
	Counters queueCounters
	matched  matched
	Waits    waiters
	confirm  sync.Pool // of *confirmation

	// Live is canceled by Shut, which stops the background goroutines.
	Live context.Context //nolint:containedctx // see above
	stop context.CancelFunc
	// Background counts the goroutines that Close waits for.
	Background sync.WaitGroup

	mu     sync.Mutex
	closed bool // guarded by mu

	Verified atomic.Bool // all that was stored at the start has been read
}

// above is what this layer needs from the layers above it. Each of them sets its part
// before Begin.
type above struct {
	// Hand returns a job that this program holds, nil if it does not hold it.
	Hand func(id string) Hand
	// Executors returns the executors that work on a queue in this program.
	Executors func(queue string) []bullpen.Executor
	// Ended is called for each end that this program records.
	Ended func(e *record.End)
}

// Hand is a job that this program holds.
type Hand interface {
	// Running reports whether the job was handed to its executor.
	Running() bool
	// Number returns the number of the attempt, 0 if it is not yet known.
	Number() int
	// Said returns the last progress, note and log lines of the task.
	Said() (progress float64, note string, lines []bullpen.LogLine)
}

// New returns the jobs that an engine keeps. They own the engine from then on, even after
// an error.
func New(ctx context.Context, e engine.Engine, c Config) (*Jobs, error) {
	q := &Jobs{Config: c, Self: ulid.Make().String(), Engine: e}
	q.Above = above{
		Hand:      func(string) Hand { return nil },
		Executors: func(string) []bullpen.Executor { return nil },
		Ended:     func(*record.End) {},
	}
	q.Live, q.stop = context.WithCancel(context.Background())
	q.Journal.open(c.Logger) //nolint:contextcheck // the logger lasts until Close, not as long as the call
	if err := q.checkSizes(ctx); err != nil {
		q.Shut()
		return nil, errors.Join(err, q.Close(ctx))
	}
	return q, nil
}

// Begin starts the goroutines that watch the store.
func (q *Jobs) Begin() {
	q.Background.Go(q.watch)  // ends with live
	q.Background.Go(q.verify) // ends when all is read, or with live
}

// Shut refuses new calls and stops the background goroutines. It reports whether this is
// the first call.
func (q *Jobs) Shut() (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first = !q.closed
	q.closed = true
	q.stop()
	return first
}

// AwaitBackground waits for the background goroutines to end, after Shut.
func (q *Jobs) AwaitBackground() { q.Background.Wait() }

// Close closes the store. It is called after Shut, when only background goroutines still
// run.
func (q *Jobs) Close(ctx context.Context) error {
	err := q.Engine.Close(ctx)
	q.Waits.failAll(job.ErrClosed)
	q.Background.Wait()
	q.Journal.close()
	return err
}

// Enter makes Close wait until done is called. It reports whether the queue is open.
func (q *Jobs) Enter() (done func(), open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	q.Background.Add(1)
	return q.Background.Done, true
}

// RecordRoom is how many bytes a record needs besides its payload: a dead job's evidence,
// the last lines, metadata.
const RecordRoom = 128 << 10

// checkSizes checks the bounds of payloads against what the store can take.
func (q *Jobs) checkSizes(ctx context.Context) error {
	info, err := q.Engine.Info(ctx)
	if err != nil {
		return err
	}
	c := &q.Config
	room := RecordRoom + max(c.Keep.LineBytes, 0)
	if largest := max(c.MaxPayload, c.MaxResult); info.MaxMessage > 0 && largest > info.MaxMessage-room {
		return fmt.Errorf("MaxPayload is %d and MaxResult is %d bytes, but the server accepts messages of at most %d "+
			"bytes, and %d of these are reserved for metadata: lower the two, or raise max_payload of "+
			"the server",
			c.MaxPayload, c.MaxResult, info.MaxMessage, room)
	}
	return nil
}

// watch reports a failure of the store.
func (q *Jobs) watch() {
	select {
	case <-q.Engine.Failed():
		q.Journal.Emit(job.Event{Kind: job.StoreFailed, Text: q.Engine.Err().Error()})
		q.Waits.failAll(q.Err())
	case <-q.Live.Done():
	}
}

// Spawn runs f in a goroutine that Close waits for; f ends when Live does, at the latest.
// After Close it runs f in the caller's goroutine, where f ends at once.
func (q *Jobs) Spawn(f func()) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		f()
		return
	}
	q.Background.Add(1)
	q.mu.Unlock()
	go func() { // see the comment of Spawn
		defer q.Background.Done()
		f()
	}()
}

// SpawnLocked is Spawn for a caller that holds a lock: after Close it does nothing and
// returns false.
func (q *Jobs) SpawnLocked(f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.Background.Go(f) // see the comment of Spawn
	return true
}

// confirmation waits for one Put. It is reused after its answer has come.
type confirmation struct {
	answer chan error
	done   func(uint64, error)
	// settled is the done of calls without a sequence number.
	settled func(error)
}

func newConfirmation() *confirmation {
	c := &confirmation{answer: make(chan error, 1)}
	c.settled = func(err error) { c.answer <- err }
	c.done = func(_ uint64, err error) { c.answer <- err }
	return c
}

// Put stores p and waits for the answer.
func (q *Jobs) Put(ctx context.Context, p engine.Put) error {
	c, ok := q.confirm.Get().(*confirmation)
	if !ok {
		c = newConfirmation()
	}
	q.Engine.Put(p, c.done)
	select {
	case err := <-c.answer:
		q.confirm.Put(c)
		return StoreError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", job.ErrUnconfirmed, context.Cause(ctx))
	}
}

// Settle waits until everything that was read survives a loss of power.
func (q *Jobs) Settle(ctx context.Context) error {
	c, ok := q.confirm.Get().(*confirmation)
	if !ok {
		c = newConfirmation()
	}
	q.Engine.Settle(c.settled)
	select {
	case err := <-c.answer:
		q.confirm.Put(c)
		return StoreError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", job.ErrUnconfirmed, context.Cause(ctx))
	}
}

// StoreError translates an error of the engine into one of package job.
func StoreError(err error) error {
	switch {
	case err == nil, errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrNotFound), errors.Is(err, job.ErrDamaged):
		return err
	case errors.Is(err, engine.ErrFull):
		return fmt.Errorf("%w: %w", job.ErrFull, err)
	case errors.Is(err, engine.ErrClosed):
		return job.ErrClosed
	case errors.Is(err, engine.ErrUnknown):
		return fmt.Errorf("%w: %w", job.ErrUnconfirmed, err)
	default:
		return fmt.Errorf("%w: %w", job.ErrStore, err)
	}
}

// PutSeq stores p and returns its sequence number.
func (q *Jobs) PutSeq(ctx context.Context, p engine.Put) (uint64, error) {
	type answer struct {
		seq uint64
		err error
	}
	c := make(chan answer, 1)
	q.Engine.Put(p, func(seq uint64, err error) { c <- answer{seq, err} })
	select {
	case a := <-c:
		return a.seq, StoreError(a.err)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", job.ErrUnconfirmed, context.Cause(ctx))
	}
}

// Failed implements queue.Queue.Failed.
func (q *Jobs) Failed() <-chan struct{} { return q.Engine.Failed() }

// Err implements queue.Queue.Err.
func (q *Jobs) Err() error { return StoreError(q.Engine.Err()) }

// Damaged counts a damaged record and emits an event.
func (q *Jobs) Damaged(queue, id string, err error) {
	q.Damages.Add(1)
	q.Journal.Emit(job.Event{Kind: job.Damaged, Queue: queue, Job: id, Text: err.Error()})
}
