package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Stream names one of the four streams.
type Stream uint8

// The streams.
const (
	// Jobs holds what is to be done. A message leaves it by Ack or Delete.
	Jobs Stream = iota
	// Outcomes holds how jobs ended, one message a subject, oldest dropped first.
	Outcomes
	// State holds small things that change, one message a subject: idempotency
	// keys, attempts of jobs that failed, settings that nodes share.
	State
	// Dead holds jobs that have failed for good, with their evidence, one
	// message a subject, oldest dropped first.
	Dead
)

// Streams returns all streams.
func Streams() []Stream { return []Stream{Jobs, Outcomes, State, Dead} }

var streamNames = [...]string{Jobs: "jobs", Outcomes: "outcomes", State: "state", Dead: "dead"}

// String returns the word for s.
func (s Stream) String() string {
	if int(s) < len(streamNames) {
		return streamNames[s]
	}
	return "unknown stream"
}

// The reasons why an engine refuses.
var (
	// ErrNotFound says that there is no such message.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that the condition of a Put did not hold; nothing was stored.
	ErrConflict = errors.New("another message came first")
	// ErrFull says that the stream or the disk has no room; nothing was stored.
	ErrFull = errors.New("the store is full")
	// ErrClosed says that this engine was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFailed says that the store can promise nothing any more, as after a
	// failed write to the disk, until the program is started again.
	ErrFailed = errors.New("the store has failed")
	// ErrUnknown says that a Put may have been stored or not: the connection
	// was lost before the answer came.
	ErrUnknown = errors.New("no answer from the store")
)

// Put is a message to store. Subject is one of those that Subjects describes.
type Put struct {
	Stream  Stream
	Subject string
	Data    []byte // the engine's until done is called
	// Durable asks that done is called only when the message survives a loss of
	// power. Without it done is called when it survives the death of the process.
	Durable bool
	// New asks that Subject holds no message.
	New bool
	// After asks that the newest message on Subject has this sequence number; 0
	// asks nothing.
	After uint64
	// At, of a Put to Jobs, is when the message appears on Subject; until then
	// it is found on "at.<id>" (the last token of Subject), and New and After
	// are conditions of that subject. Zero is at once.
	At time.Time
	// TTL, of a Put to State, is after what time the message goes; 0 is never.
	TTL time.Duration
}

// Message is a stored message.
type Message struct {
	Stream  Stream
	Subject string
	Data    []byte // the receiver's; it may be kept
	Seq     uint64
	Time    time.Time // when it was stored
	// At is when a message on "at.<id>" will appear on its own subject, which
	// Target gives; zero for others.
	At     time.Time
	Target string
	// Expires is when a message of State goes that has a TTL; zero for others.
	Expires time.Time
}

// Delivery is a message of Jobs that a consumer has handed out.
type Delivery struct {
	Message
	Receipt
	// Deliveries counts how often the message was handed out, this time included.
	Deliveries int
	// Waiting is how many more the consumer could have handed out just then.
	Waiting uint64
	// Old says that the message was stored before this engine was opened (or
	// connected again), so that its deletion or an Ack may have been lost.
	Old bool
	// Again says that it may have been handed out before, whatever Deliveries
	// says: the process that had it was killed.
	Again bool
	// Orphan says that it may have been handed out before to somebody else than
	// this engine: to an earlier process, or another node. The server's count of
	// deliveries alone does not prove that: it counts those that found nobody.
	Orphan bool
}

// Receipt answers a delivery. Its methods do not block, may be called from any
// goroutine, and do nothing once the delivery was answered or the engine was
// closed.
type Receipt interface {
	// Ack ends the message: it leaves the stream. An Ack may be lost, then the
	// message is handed out again after the lease.
	Ack()
	// End stores puts and ends the message. An engine on one machine does so in one
	// atomic change, so that nobody, also after a crash, sees a part of it; another
	// stores one after the other, then the message leaves as by Ack. The first put that
	// is refused is the error of done and ends it: then the message stays, and the
	// delivery is still to be answered. done is called exactly once, as that of
	// [Engine.Put], also when the delivery was answered before.
	End(puts []Put, done func(error))
	// Nak gives the message back, to be handed out again after delay.
	Nak(delay time.Duration)
	// Extend begins the lease anew.
	Extend()
	// Begin says that what was handed out is about to start. Of a consumer that is
	// Grouped, Orphan of a later delivery tells of what had begun only.
	Begin()
}

// PutAll stores messages, one after the other, until one is refused.
func PutAll(e Engine, puts []Put, done func(error)) {
	if len(puts) == 0 {
		done(nil)
		return
	}
	e.Put(puts[0], func(_ uint64, err error) {
		if err != nil {
			done(err)
			return
		}
		PutAll(e, puts[1:], done)
	})
}

// EndInSteps is [Receipt.End] for an engine that stores one message at a time.
func EndInSteps(e Engine, r Receipt, puts []Put, done func(error)) {
	PutAll(e, puts, func(err error) {
		if err == nil {
			r.Ack()
		}
		done(err)
	})
}

// Walk says where [Engine.Walk] goes.
type Walk struct {
	// From is the first sequence number that is looked at; 0 is the first one that
	// there is, or the last one for a walk that is Back.
	From uint64
	// Back walks from the last to the first.
	Back bool
	// Largest is about how large a message may be, so that not too many are under
	// way at a time; 0 is a megabyte.
	Largest int
}

// Taker asks one consumer for messages.
type Taker interface {
	// Request asks for up to n more messages. With wait they may come later, as
	// they arrive; without it only those that are there now. Of the n, each is
	// either delivered, or told by returned.
	Request(n int, wait bool)
	// Recall takes back the requests that wait. Those of them that were not on
	// their way are soon told by returned; it does not wait for that.
	Recall()
	// Stop takes back all requests and returns when neither deliver nor
	// returned will be called any more. What was on its way is delivered before
	// that, so that the taker can say what became of it.
	Stop()
}

// Consumer names one consumer: one queue and one priority, and of these the jobs
// that have a group or those that have none. One who takes jobs with a group may
// keep them before they begin, to share out turns: what was handed out counts as
// begun for them only after Receipt.Begin.
type Consumer struct {
	Queue, Priority string
	Grouped         bool
}

// Depth says how much a consumer has.
type Depth struct {
	Waiting int       // never handed out yet, or given back and due, as far as is known
	Taken   int       // handed out and not answered, or given back with a delay
	Paused  bool      // nothing is handed out
	Oldest  time.Time // when the first message that is still there was stored; zero for none
}

// Usage says how much a stream holds.
type Usage struct {
	Messages, Bytes int64
	First, Last     uint64 // sequence numbers
}

// Info says what an engine is and how it does.
type Info struct {
	// Kind is "memory", "embedded" or "server".
	Kind string
	// Durability says in words what a durable confirm means here.
	Durability string
	Replicas   int
	// MaxMessage is the largest Data of a Put; 0 is no bound.
	MaxMessage int
	Streams    map[Stream]Usage
	Sync       SyncStats
}

// SyncStats says how the disk does.
type SyncStats struct {
	Syncs    int64 // how many
	Confirms int64 // how many messages they confirmed
	// P50, P99 and Max are of the last 1024 syncs.
	P50, P99, Max, Last time.Duration
}

// Engine is a store of jobs. All methods are safe for concurrent use.
type Engine interface {
	// Put stores p and calls done exactly once, from a goroutine of the engine
	// or before Put returns. done must not block.
	Put(p Put, done func(seq uint64, err error))
	// Settle calls done when everything that was stored before the call survives
	// a loss of power: what Get has found may not yet do so. As for Put, done must
	// not block.
	Settle(done func(err error))
	// Get returns the newest message whose subject matches; a token "*" matches any.
	Get(ctx context.Context, s Stream, subject string) (Message, error)
	// Delete removes a message. One that is not there is no error.
	Delete(ctx context.Context, s Stream, seq uint64) error
	// Scan returns up to limit messages whose subject matches, from sequence
	// number from on, in their order; a last token ">" matches all the rest.
	// Fewer than limit say that there are no more.
	Scan(ctx context.Context, s Stream, subject string, from uint64, limit int) ([]Message, error)
	// Walk calls visit for each message of a stream from w.From on, one after the
	// other, until visit returns false or nothing is left, and returns where to go
	// on: 0 for nowhere. It holds about 64 MiB of messages at most.
	Walk(ctx context.Context, s Stream, w Walk, visit func(Message) bool) (next uint64, err error)
	// Matching returns how many messages there are whose subject matches. It costs
	// the store a few milliseconds for 100 000 of them.
	Matching(ctx context.Context, s Stream, subject string) (int64, error)
	// Take begins to take messages of c, which is made if it is not there.
	// deliver and returned are called by one goroutine, one call after the
	// other, and must not block.
	Take(c Consumer, deliver func(Delivery), returned func(n int)) (Taker, error)
	// Depth returns how much c has.
	Depth(ctx context.Context, c Consumer) (Depth, error)
	// Pause stops or starts the handing out of c on all nodes, durably. c is
	// made if it is not there.
	Pause(ctx context.Context, c Consumer, paused bool) error
	// Paused returns the consumers that hand nothing out, in any order.
	Paused(ctx context.Context) ([]Consumer, error)
	// Shared reports whether other nodes may be on the same store. Only then does
	// it make sense to Send and Listen.
	Shared() bool
	// Send tells the listeners of all nodes something; it may be lost.
	Send(subject string, data []byte) error
	// Listen calls heard, one call after the other, for each message sent to
	// subject, until stop is called.
	Listen(subject string, heard func(subject string, data []byte)) (stop func(), err error)
	// Failed is closed when the store has failed; Err says why.
	Failed() <-chan struct{}
	Err() error
	// Info returns what there is to know.
	Info(ctx context.Context) (Info, error)
	// Close ends all takers and the connection.
	// What was put before is stored; its done has been called when Close returns.
	Close(ctx context.Context) error
}

// Clock is an engine with a time of its own, by which the schedules of the queue on
// it tick: that of a node whose clock is wrong, in tests.
type Clock interface{ Now() time.Time }

// Options are what an engine is opened with.
type Options struct {
	// Namespace keeps several queues on one server apart. Lower-case letters,
	// digits, "-" and "_".
	Namespace string
	// Lease is how long a taker may keep a message without a sign of life.
	Lease time.Duration
	// Jobs is the most bytes of jobs.
	Jobs int64
	// Outcomes, OutcomeCount and OutcomeAge bound what is kept of outcomes;
	// Dead and DeadAge what is kept of dead jobs.
	Outcomes, OutcomeCount int64
	OutcomeAge             time.Duration
	Dead                   int64
	DeadAge                time.Duration
	Logger                 *slog.Logger
}

// Store is where jobs are kept: it opens the engine.
type Store interface {
	Open(ctx context.Context, o Options) (Engine, error)
}
