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
	// Jobs holds the jobs that have not ended. A message leaves it by Ack or Delete.
	Jobs Stream = iota
	// Outcomes holds how jobs ended: one message per subject, the oldest dropped first.
	Outcomes
	// State holds small values that change, one message per subject: idempotency keys,
	// attempts of jobs that failed, settings that nodes share.
	State
	// Dead holds jobs that have failed for good, with their evidence: one message per
	// subject, the oldest dropped first.
	Dead
)

// Streams returns all streams.
func Streams() []Stream { return []Stream{Jobs, Outcomes, State, Dead} }

var streamNames = [...]string{Jobs: "jobs", Outcomes: "outcomes", State: "state", Dead: "dead"}

// String returns the name of s.
func (s Stream) String() string {
	if int(s) < len(streamNames) {
		return streamNames[s]
	}
	return "unknown stream"
}

// The errors of an engine.
var (
	// ErrNotFound means that the message does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the condition of a Put did not hold; nothing was stored.
	ErrConflict = errors.New("another message came first")
	// ErrFull means that the stream or the disk has no room; nothing was stored.
	ErrFull = errors.New("the store is full")
	// ErrClosed means that the engine was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFailed means that the store can no longer guarantee anything, as after a failed
	// write to the disk. It works again only after a restart of the program.
	ErrFailed = errors.New("the store has failed")
	// ErrUnknown means that a Put may or may not have been stored: the connection was
	// lost before the answer came.
	ErrUnknown = errors.New("no answer from the store")
)

// Put is a message to store. JobSubject lists the subjects that exist.
type Put struct {
	Stream  Stream
	Subject string
	Data    []byte // owned by the engine until done is called
	// Durable delays done until the message survives a loss of power. Without it, done is
	// called once the message survives the death of the process.
	Durable bool
	// New requires that Subject holds no message.
	New bool
	// After requires that the newest message on Subject has this sequence number; 0
	// requires nothing.
	After uint64
	// At, for a Put to Jobs, is when the message appears on Subject; zero is at once.
	// Until then it lies on "at.<id>" (the last token of Subject), and New and After
	// apply to that subject.
	At time.Time
	// TTL, for a Put to State, is how long the message is kept; 0 is forever.
	TTL time.Duration
}

// Message is a stored message.
type Message struct {
	Stream  Stream
	Subject string
	Data    []byte // owned by the receiver, which may keep it
	Seq     uint64
	Time    time.Time // when it was stored
	// At is when a message on "at.<id>" will appear on its own subject, which is Target;
	// both are zero for other messages.
	At     time.Time
	Target string
	// Expires is when a message of State with a TTL is removed; zero for others.
	Expires time.Time
}

// Delivery is a message of Jobs that a consumer has handed out.
type Delivery struct {
	Message
	Receipt
	// Deliveries counts how often the message was handed out, including this time.
	Deliveries int
	// Waiting is how many more messages the consumer could have handed out at that
	// moment.
	Waiting uint64
	// Old means that the message was stored before this engine was opened (or
	// reconnected), so its deletion or an Ack may have been lost.
	Old bool
	// Again means that the message may have been handed out before, whatever Deliveries
	// says: the process that had it was killed.
	Again bool
	// Orphan means that the message may have been handed out to a taker outside this
	// engine: an earlier process or another node. The server's count of deliveries alone
	// does not prove that, as it includes those that reached no taker.
	Orphan bool
}

// Receipt answers a delivery. Its methods do not block, may be called from any
// goroutine, and do nothing once the delivery was answered or the engine was
// closed.
type Receipt interface {
	// Ack ends the message: it leaves the stream. If the Ack is lost, the message is
	// handed out again after the lease.
	Ack()
	// End stores puts and ends the message. An engine on one machine does both in one
	// atomic change, so that no reader sees a part of it, not even after a crash. Other
	// engines store the puts one by one, then the message leaves as by Ack. The first put
	// that is refused stops End and is the error of done; the message stays, and the
	// delivery must still be answered. done is called exactly once, like that of
	// [Engine.Put], even if the delivery was answered before.
	End(puts []Put, done func(error))
	// Nak gives the message back, to be handed out again after delay.
	Nak(delay time.Duration)
	// Extend renews the lease.
	Extend()
	// Begin reports that the message is about to start. For a consumer that is Grouped,
	// Orphan of a later delivery covers only messages that had begun.
	Begin()
}

// PutAll stores messages one by one until one is refused.
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

// Walk configures [Engine.Walk].
type Walk struct {
	// From is the first sequence number to visit; 0 is the first message of the stream,
	// or the last one if Back is set.
	From uint64
	// Back walks from the last to the first.
	Back bool
	// Largest is the approximate size of the largest message, which bounds how many are
	// read at a time; 0 is a megabyte.
	Largest int
}

// Taker requests messages from one consumer.
type Taker interface {
	// Request asks for up to n more messages. With wait they may come later, as they
	// arrive; without it, only those available now are handed out. Each of the n is
	// either delivered or counted by a call of returned.
	Request(n int, wait bool)
	// Recall takes back the requests that wait. Those without a message on its way are
	// soon counted by a call of returned; Recall does not wait for that.
	Recall()
	// Stop takes back all requests. After it returns, neither deliver nor returned is
	// called. Messages on their way are delivered before that, so that the taker can
	// answer them.
	Stop()
}

// Consumer names one consumer: the jobs of one queue and one priority, either those with
// a group or those without. A taker of jobs with a group may hold them before they begin,
// to share out turns: such a job counts as begun only after Receipt.Begin.
type Consumer struct {
	Queue, Priority string
	Grouped         bool
}

// Depth is the number of messages that a consumer has.
type Depth struct {
	Waiting int       // never handed out, or given back and due, as far as is known
	Taken   int       // handed out and not answered, or given back with a delay
	Paused  bool      // nothing is handed out
	Oldest  time.Time // when the oldest message that remains was stored; zero for none
}

// Usage is how much a stream holds.
type Usage struct {
	Messages, Bytes int64
	First, Last     uint64 // sequence numbers
}

// Info describes an engine and its condition.
type Info struct {
	// Kind is "memory", "embedded" or "server".
	Kind string
	// Durability says in words what a durable confirmation means for this engine.
	Durability string
	Replicas   int
	// MaxMessage is the largest Data of a Put; 0 is unlimited.
	MaxMessage int
	Streams    map[Stream]Usage
	Sync       SyncStats
}

// SyncStats measures the syncs to the disk.
type SyncStats struct {
	Syncs    int64 // how many
	Confirms int64 // messages that they confirmed
	// P50, P99 and Max cover the last 1024 syncs.
	P50, P99, Max, Last time.Duration
}

// Engine is a store of jobs. All methods are safe for concurrent use.
type Engine interface {
	// Put stores p and calls done exactly once, from a goroutine of the engine
	// or before Put returns. done must not block.
	Put(p Put, done func(seq uint64, err error))
	// Settle calls done when everything stored before the call survives a loss of power.
	// What Get has found may not do so until then. As for Put, done must not block.
	Settle(done func(err error))
	// Get returns the newest message whose subject matches; a token "*" matches any.
	Get(ctx context.Context, s Stream, subject string) (Message, error)
	// Delete removes a message. It is no error if the message does not exist.
	Delete(ctx context.Context, s Stream, seq uint64) error
	// Scan returns up to limit messages whose subject matches, in their order, starting
	// at sequence number from; a last token ">" matches all remaining tokens. Fewer than
	// limit means that no more exist.
	Scan(ctx context.Context, s Stream, subject string, from uint64, limit int) ([]Message, error)
	// Walk calls visit for each message of a stream from w.From on, one at a time, until
	// visit returns false or no message is left. It returns where to continue: 0 at the
	// end. It holds at most about 64 MiB of messages.
	Walk(ctx context.Context, s Stream, w Walk, visit func(Message) bool) (next uint64, err error)
	// Matching returns the number of messages whose subject matches. It costs the store a
	// few milliseconds for 100 000 of them.
	Matching(ctx context.Context, s Stream, subject string) (int64, error)
	// Take starts to take messages of c, which is created if it does not exist. deliver
	// and returned are called by one goroutine, one call at a time, and must not block.
	Take(c Consumer, deliver func(Delivery), returned func(n int)) (Taker, error)
	// Depth returns the number of messages that c has.
	Depth(ctx context.Context, c Consumer) (Depth, error)
	// Pause stops or resumes c on all nodes, durably: a paused consumer hands out no
	// messages. c is created if it does not exist.
	Pause(ctx context.Context, c Consumer, paused bool) error
	// Paused returns the paused consumers, in any order.
	Paused(ctx context.Context) ([]Consumer, error)
	// Shared reports whether other nodes may use the same store. Only then are Send and
	// Listen useful.
	Shared() bool
	// Send sends a message to the listeners of all nodes; it may be lost.
	Send(subject string, data []byte) error
	// Listen calls receive for each message sent to subject, one call at a time, until stop
	// is called.
	Listen(subject string, receive func(subject string, data []byte)) (stop func(), err error)
	// Failed is closed when the store has failed; Err returns the reason.
	Failed() <-chan struct{}
	Err() error
	// Info describes the engine and its streams.
	Info(ctx context.Context) (Info, error)
	// Close ends all takers and the connection. Everything put before is stored, and its
	// done has been called when Close returns.
	Close(ctx context.Context) error
}

// Clock is an engine with its own clock, which the schedules of the queue then follow.
// Tests use it for a node whose clock is wrong.
type Clock interface{ Now() time.Time }

// Options configure an engine when it is opened.
type Options struct {
	// Namespace separates queues that share a server. It consists of lower-case letters,
	// digits, "-" and "_".
	Namespace string
	// Lease is how long a taker may keep a message without renewing it.
	Lease time.Duration
	// Jobs is the largest size in bytes of the stream Jobs.
	Jobs int64
	// Outcomes, OutcomeCount and OutcomeAge bound the outcomes that are kept; Dead and
	// DeadAge bound the dead jobs.
	Outcomes, OutcomeCount int64
	OutcomeAge             time.Duration
	Dead                   int64
	DeadAge                time.Duration
	Logger                 *slog.Logger
}

// Store opens the engine that keeps the jobs.
type Store interface {
	Open(ctx context.Context, o Options) (Engine, error)
}
