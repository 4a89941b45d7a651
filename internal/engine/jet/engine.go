package jet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Engine implements [engine.Engine] with the streams of one namespace.
type Engine struct {
	config    Config
	conn      *nats.Conn
	js        jetstream.JetStream
	log       *slog.Logger
	prefix    string // of all subjects: "bp.<namespace>."
	spread    string // of subjects that are not stored
	addresses [4]address
	inbox     string // prefix of the subjects for answers to puts; a token follows
	answers   *nats.Subscription
	backs     *nats.Subscription // messages of other nodes about what they give back

	jobs  room
	back  back
	puts  *puts
	ticks atomic.Int64

	connected  atomic.Bool
	answeredAt atomic.Int64  // when a server last answered, in Unix nanoseconds
	old        atomic.Uint64 // deliveries up to this sequence number are old

	mu        sync.Mutex
	consumers map[engine.Consumer]struct{} // guarded by mu: those that exist
	making    map[engine.Consumer]struct{} // guarded by mu: those being created again
	takers    map[*taker]struct{}          // guarded by mu
	leaving   []left                       // guarded by mu: feeds of takers that have stopped
	shutting  bool                         // guarded by mu: Close was called
	ending    bool                         // guarded by mu: no more goroutines start

	closed atomic.Bool
	life   context.Context //nolint:containedctx // It ends what runs in the background when the engine is closed.
	end    context.CancelFunc
	// goroutines counts the watcher and the background goroutines; Close waits for them.
	goroutines sync.WaitGroup
	ended      chan struct{} // closed when Close has ended
}

// patience is how many ticks the answer to a put may take.
const patience = int64(5 * time.Second / tick)

func newEngine(c Config, js jetstream.JetStream) *Engine {
	e := &Engine{
		config:    c,
		conn:      c.Conn,
		js:        js,
		log:       c.Options.Logger,
		prefix:    "bp." + c.Options.Namespace + ".",
		addresses: addresses(c.Options.Namespace),
		jobs:      room{bound: c.Options.Jobs},
		puts:      newPuts(),
		consumers: map[engine.Consumer]struct{}{},
		making:    map[engine.Consumer]struct{}{},
		takers:    map[*taker]struct{}{},
		ended:     make(chan struct{}),
	}
	e.back.forget = c.Options.Lease
	e.noteUseful()
	e.spread = e.prefix + "tell."
	e.inbox = c.Conn.NewInbox() + "."
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// start subscribes to answers and starts to watch the connection.
func (e *Engine) start() error {
	sub, err := e.conn.Subscribe(e.inbox+"*", e.answered)
	if err == nil {
		// A dropped answer would leave a put without an end.
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		e.end()
		return fmt.Errorf("jet: listening for the answers to puts: %w", err)
	}
	e.answers = sub
	if e.backs, err = e.conn.Subscribe(e.prefix+backSubject, func(m *nats.Msg) { e.heardBack(m.Data) }); err != nil {
		e.end()
		return fmt.Errorf("jet: listening for jobs that other nodes give back: %w", err)
	}
	e.watch()
	return nil
}

// background runs f in a goroutine that Close waits for. After Close it does nothing and
// returns false.
func (e *Engine) background(f func()) (started bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending {
		return false
	}
	e.goroutines.Go(f)
	return true
}

// Shared implements [engine.Engine].
func (e *Engine) Shared() bool { return true }

// Send implements [engine.Engine].
func (e *Engine) Send(subject string, data []byte) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return sendFault(e.conn.Publish(e.spread+subject, data))
}

// Listen implements [engine.Engine].
func (e *Engine) Listen(subject string, receive func(subject string, data []byte)) (stop func(), err error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	n := len(e.spread)
	sub, err := e.conn.Subscribe(e.spread+subject, func(m *nats.Msg) { receive(m.Subject[n:], m.Data) })
	if err != nil {
		return nil, fmt.Errorf("jet: listening to %q: %w", subject, err)
	}
	// Ensures that everything other nodes send from now on is heard.
	if err := e.conn.FlushTimeout(apiPatience); err != nil && e.conn.IsConnected() {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("jet: listening to %q: %w", subject, err)
	}
	return sync.OnceFunc(func() { _ = sub.Unsubscribe() }), nil
}

// Failed implements [engine.Engine]. It returns nil, as an external server comes back.
func (e *Engine) Failed() <-chan struct{} { return nil }

// Err implements [engine.Engine].
func (e *Engine) Err() error { return nil }

// Info implements [engine.Engine].
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	if e.closed.Load() {
		return engine.Info{}, engine.ErrClosed
	}
	info := engine.Info{
		Kind:       "server",
		Replicas:   1,
		MaxMessage: max(int(e.conn.MaxPayload())-mostHeader, 0),
		Streams:    map[engine.Stream]engine.Usage{},
	}
	for _, s := range engine.Streams() {
		i, err := e.streamInfo(ctx, s)
		if err != nil {
			return engine.Info{}, err
		}
		info.Streams[s] = engine.Usage{
			Messages: int64(i.State.Msgs), Bytes: int64(i.State.Bytes),
			First: i.State.FirstSeq, Last: i.State.LastSeq,
		}
		if s == engine.Jobs {
			info.Replicas = max(i.Config.Replicas, 1)
			info.Durability = durability(i, e.conn.ConnectedUrlRedacted())
		}
	}
	return info, nil
}

// mostHeader bounds the size of a put's headers, which the server counts.
const mostHeader = 1024

// Close implements [engine.Engine]. Only the first call closes; later ones wait for it.
func (e *Engine) Close(ctx context.Context) error {
	if !e.closing() {
		select {
		case <-e.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(e.ended)
	e.mu.Lock()
	takers := make([]*taker, 0, len(e.takers))
	for t := range e.takers {
		takers = append(takers, t)
	}
	e.mu.Unlock()
	for _, t := range takers {
		t.Stop()
	}
	e.drop(ctx)
	idle := e.puts.close()
	var faults []error
	select {
	case <-idle:
	case <-ctx.Done():
		over := e.puts.takeAll()
		faults = append(faults, fmt.Errorf("jet: closed with %d messages unanswered: %w", len(over), ctx.Err()))
		e.unanswered(over, "the store was closed before an answer came")
	}
	e.closed.Store(true)
	if e.conn.IsConnected() {
		if err := e.settleAcks(ctx); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			faults = append(faults, fmt.Errorf("jet: the last acknowledgements may be lost: %w", err))
		}
	}
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	e.end()
	e.goroutines.Wait()
	_ = e.answers.Unsubscribe() // fails if the connection is closed already
	_ = e.backs.Unsubscribe()
	if e.config.Owned {
		e.conn.Close()
	}
	return errors.Join(faults...)
}

// closing reports whether this is the first Close.
func (e *Engine) closing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := !e.shutting
	e.shutting = true
	return first
}

// settleAcks waits until the server has processed all answers to deliveries. They are
// sent in order and without a reply, so each consumer gets a last message that has no
// effect but a reply.
func (e *Engine) settleAcks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	e.mu.Lock()
	consumers := slices.Collect(maps.Keys(e.consumers))
	e.mu.Unlock()
	for _, c := range consumers {
		if _, err := e.conn.RequestWithContext(ctx, e.silentWord(c), []byte("?")); err != nil && !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
	}
	return e.conn.FlushWithContext(ctx)
}

// silentWord returns the subject for a message to a consumer that has no effect but a
// reply.
func (e *Engine) silentWord(c engine.Consumer) string {
	return "$JS.ACK." + e.addresses[engine.Jobs].name + "." + consumerName(c) + ".1.1.1.1.0"
}
