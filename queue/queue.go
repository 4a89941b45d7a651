package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Queue is a connection to the jobs of one namespace. All methods are safe for
// concurrent use. Several may be open on one server or cluster, in one program
// or in many.
type Queue struct {
	config  Config
	self    string // this opening of the queue, among all nodes
	engine  engine.Engine
	journal journal
	count   counters
	tallies tallies
	matched matched
	waits   waiters
	batches batches
	confirm sync.Pool // of *confirmation

	// live is open until Close: its end stops what runs in the background.
	live context.Context //nolint:containedctx // see above
	end  context.CancelFunc
	// background counts the goroutines that Close waits for.
	background sync.WaitGroup

	mu        sync.Mutex
	hands     map[string]*attempt  // by id: what this node has in hand; guarded by mu
	runners   map[*runner]struct{} // the calls of Work; guarded by mu
	firer     *firer               // the call of FireSchedules, nil when there is none; guarded by mu
	yards     map[string]*yard     // by queue: jobs with a group that wait for their turn; guarded by mu
	takenBack takenBack            // guarded by mu
	closed    bool                 // guarded by mu
	stops     []func()             // end the listening; written before Open returns

	verified atomic.Bool // all that was stored at the start has been read
}

// Open connects to the store, makes there what is missing, and reports all
// faults of c at once. An embedded store checks what it finds, in some milliseconds.
// With several Replicas it waits until the cluster has a leader and enough
// servers, or ctx ends; the log says that it waits.
func Open(ctx context.Context, c Config) (*Queue, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("queue: the config is not valid: %w", err)
	}
	c = c.withDefaults()
	e, err := c.Store.Open(ctx, engine.Options{
		Namespace: c.Namespace, Lease: c.Lease, Jobs: c.Keep.Jobs,
		Outcomes: c.Keep.Outcomes, OutcomeCount: c.Keep.OutcomeCount, OutcomeAge: c.Keep.OutcomeAge,
		Dead: c.Keep.Dead, DeadAge: c.Keep.DeadAge, Logger: c.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	q := &Queue{config: c, self: ulid.Make().String(), engine: e, hands: make(map[string]*attempt), runners: make(map[*runner]struct{}), yards: make(map[string]*yard)}
	q.live, q.end = context.WithCancel(context.Background())
	q.journal.open(c.Logger)
	q.batches.init(q)
	if err := errors.Join(q.listen(), q.checkSizes(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("queue: %w", err), q.Close())
	}
	q.background.Go(q.watch)        // ends with live
	q.background.Go(q.verify)       // ends when all is read, or with live
	q.background.Go(q.batches.loop) // ends with live
	return q, nil
}

// recordRoom is what a record needs beside a payload: a dead job's evidence, the
// last lines, metadata.
const recordRoom = 128 << 10

// checkSizes holds the bounds of payloads against what the store can take.
func (q *Queue) checkSizes(ctx context.Context) error {
	info, err := q.engine.Info(ctx)
	if err != nil {
		return err
	}
	c := &q.config
	room := recordRoom + max(c.Keep.LineBytes, 0)
	if largest := max(c.MaxPayload, c.MaxResult); info.MaxMessage > 0 && largest > info.MaxMessage-room {
		return fmt.Errorf("MaxPayload is %d and MaxResult %d bytes, but the server takes messages of %d at most, of which %d are for what comes along: lower the two, or raise max_payload of the server",
			c.MaxPayload, c.MaxResult, info.MaxMessage, room)
	}
	return nil
}

// listen hears of jobs that other nodes cancel, and of what they set.
func (q *Queue) listen() error {
	if !q.engine.Shared() {
		return nil
	}
	for subject, heard := range map[string]func(string){
		"cancel": q.interrupt,
		"limits": q.lookAtYard,
		"pause":  q.lookAtYard,
		"slots":  q.contend,
		"want":   q.giveUp,
	} {
		stop, err := q.engine.Listen(subject, func(_ string, data []byte) { heard(string(data)) })
		if err != nil {
			return err
		}
		q.stops = append(q.stops, stop)
	}
	return nil
}

// lookAtYard lets the yard of a queue read what another node has changed.
func (q *Queue) lookAtYard(queue string) {
	if y := q.yard(queue); y != nil {
		q.spawn(y.look) // ends with its calls, at the latest with live
	}
}

// closeYards ends the taking of jobs with a group. On a store of its own what is
// kept is there again when it is opened; elsewhere it was given back.
func (q *Queue) closeYards() {
	q.mu.Lock()
	all := slices.Collect(maps.Values(q.yards))
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	for _, y := range all {
		if y.stop(y.shared); y.shared {
			y.release(ctx)
		}
	}
}

// releasePatience bounds how long Close waits for a store to take back the places of
// groups.
const releasePatience = time.Second

// watch says when the store fails.
func (q *Queue) watch() {
	select {
	case <-q.engine.Failed():
		q.journal.emit(Event{Kind: StoreFailed, Text: q.engine.Err().Error()})
		q.waits.failAll(q.Err())
	case <-q.live.Done():
	}
}

// closePatience bounds how long Close waits for what it was given to be stored.
const closePatience = 10 * time.Second

// Close ends all calls of Work without waiting for what they run (their jobs
// run again elsewhere, or here at the next start), closes the store and
// returns. What has not begun, and what ends within a tenth of a second when its
// context does, is given back at once; on a store that other nodes share the rest runs
// again after its lease. To finish what runs, end the contexts of the calls of Work and
// wait for them first. It may be called again.
func (q *Queue) Close() error {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	runners := make([]*runner, 0, len(q.runners))
	for r := range q.runners {
		runners = append(runners, r)
	}
	q.mu.Unlock()
	if !first {
		q.background.Wait()
		return nil
	}
	q.end()
	for _, r := range runners {
		r.abort()
	}
	for _, r := range runners {
		<-r.left
	}
	for _, stop := range q.stops {
		stop()
	}
	q.closeYards()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	err := q.engine.Close(ctx)
	q.waits.failAll(ErrClosed)
	q.background.Wait()
	q.journal.close()
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for; f ends with live at the
// latest. After Close it runs f in the caller's, where it ends at once.
func (q *Queue) spawn(f func()) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		f()
		return
	}
	q.background.Add(1)
	q.mu.Unlock()
	go func() { // see the comment of spawn
		defer q.background.Done()
		f()
	}()
}

// spawnLocked is spawn for a caller that holds a lock: after Close it does nothing,
// and says so.
func (q *Queue) spawnLocked(f func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.background.Go(f) // see the comment of spawn
	return true
}

// confirmation waits for one Put. It is used again when its answer has come.
type confirmation struct {
	answer chan error
	done   func(uint64, error)
	// settled is done for what has no sequence number.
	settled func(error)
}

func newConfirmation() *confirmation {
	c := &confirmation{answer: make(chan error, 1)}
	c.settled = func(err error) { c.answer <- err }
	c.done = func(_ uint64, err error) { c.answer <- err }
	return c
}

// put stores p and waits for the answer.
func (q *Queue) put(ctx context.Context, p engine.Put) error {
	c, ok := q.confirm.Get().(*confirmation)
	if !ok {
		c = newConfirmation()
	}
	q.engine.Put(p, c.done)
	select {
	case err := <-c.answer:
		q.confirm.Put(c)
		return storeError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnconfirmed, context.Cause(ctx))
	}
}

// settle waits until what was read survives a loss of power.
func (q *Queue) settle(ctx context.Context) error {
	c, ok := q.confirm.Get().(*confirmation)
	if !ok {
		c = newConfirmation()
	}
	q.engine.Settle(c.settled)
	select {
	case err := <-c.answer:
		q.confirm.Put(c)
		return storeError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnconfirmed, context.Cause(ctx))
	}
}

// storeError puts an error of the engine into the words of this package.
func storeError(err error) error {
	switch {
	case err == nil, errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrNotFound), errors.Is(err, ErrDamaged):
		return err
	case errors.Is(err, engine.ErrFull):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, engine.ErrClosed):
		return ErrClosed
	case errors.Is(err, engine.ErrUnknown):
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	default:
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
}
