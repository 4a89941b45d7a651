// Package broker runs the server that an embedded queue keeps its jobs in, and
// adds what the server does not do by itself: one program per store, one sync of
// the disk for all confirms that wait for it, a count of the jobs that should be
// there, marks of what was being handed out, and a refusal before the disk is
// full. It is the only package that imports the server.
//
// # What a confirm means
//
// The server hands a message to the kernel and then answers. [Broker.Confirm]
// calls back once syncfs has made everything that was answered before durable.
// Where this is not known to work (see [Broker.Fallback]) the server syncs each
// message before it answers. After a failed sync nothing is confirmed any more:
// the kernel reports a lost write once, so trying again would prove nothing.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Broker is a running server with its disk. It implements [engine.Disk].
type Broker struct {
	c          Config
	server     *server.Server
	gate       *gate
	failure    *failure
	pulse      *pulse
	ledger     *ledger // of the gate's goroutine until that has ended
	unended    []id
	counted    bool // unended is known
	marks      *marks
	room       *room
	lock       *os.File
	closeFD    func() error // of the descriptor for syncfs; nil when there is none
	closeGuard func() error // of the guard of the server's folders; nil when there is none
	durability string
	fallback   string
	damage     []string
	late       <-chan struct{} // closed when a server that did not start in time has stopped; else nil

	closing sync.Once
	closed  chan struct{} // closed when all is at an end
	closeOf error         // how that went; written before closed is closed
}

// Connector gives connections within the process; it is what
// nats.InProcessServer wants.
type Connector interface {
	// InProcessConn returns the client's end of a new connection.
	InProcessConn() (net.Conn, error)
}

var _ engine.Disk = (*Broker)(nil)

// Open starts the server on the store in c.Dir, and makes that store if it is
// not there. ctx bounds the start only.
func Open(ctx context.Context, c Config) (*Broker, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("the configuration of the store: %w", err)
	}
	c = c.withDefaults()
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, explain(c.Dir, err)
	}
	c.Dir = dir
	b := &Broker{c: c, failure: newFailure(), closed: make(chan struct{})}
	b.pulse = &pulse{dir: c.Dir, failure: b.failure}
	if err := b.open(ctx); err != nil {
		if b.late != nil {
			go func() { // ends when the server has read the store and stopped again; nobody waits, but the lock is held until then
				<-b.late
				_ = b.abandon()
			}()
			return nil, err
		}
		return nil, errors.Join(err, b.abandon())
	}
	b.gate.start()
	return b, nil
}

// open does all of Open that may fail.
func (b *Broker) open(ctx context.Context) error {
	err := makeFolder(b.c.Dir)
	if err != nil {
		return err
	}
	if b.lock, err = lock(b.c.Dir); err != nil {
		return err
	}
	fresh, err := checkFormat(b.c.Dir)
	if err != nil {
		return err
	}
	b.room = &room{dir: b.c.Dir, reserve: b.c.Reserve, space: b.c.instead.space, log: b.c.Logger}
	var damage []string
	if b.marks, damage, err = openMarks(b.c.Dir, bootID(), fresh); err != nil {
		return err
	}
	b.damage = append(b.damage, damage...)
	if err := b.openLedger(fresh); err != nil {
		return err
	}
	if fresh {
		if err := writeFormat(b.c.Dir); err != nil {
			return explain(b.c.Dir, err)
		}
	}
	if err := b.startServer(ctx); err != nil {
		return err
	}
	for _, d := range b.damage {
		b.c.Logger.Error("the store is damaged", "what", d)
	}
	return nil
}

func (b *Broker) openLedger(fresh bool) error {
	l, found, err := openLedger(filepath.Join(b.c.Dir, ledgerDir), fresh, b.c.Logger)
	if err != nil {
		return err
	}
	b.ledger, b.unended, b.counted = l, found.ids, found.known
	b.damage = append(b.damage, found.damage...)
	if !found.known {
		b.damage = append(b.damage, "the count of jobs in "+l.dir+" is missing: whether jobs have vanished is not known")
	}
	return nil
}

// startServer decides how messages are made durable, and starts the server.
func (b *Broker) startServer(ctx context.Context) error {
	l := &serverLog{log: b.c.Logger, failure: b.failure}
	sys := b.c.instead
	fs, why := sys.fileSystem(b.c.Dir)
	fd := -1
	gate := newGate(nil, b.count, b.check, b.failure)
	group := b.c.Sync == SyncAuto
	if group {
		if why == nil {
			fd, b.closeFD, why = sys.open(b.c.Dir)
		}
		if why == nil {
			why = canGroup(sys, fs, fd)
		}
		if why == nil {
			why = sys.inherits(filepath.Join(b.c.Dir, probeDir))
		}
		if why == nil {
			b.late, why = selfTest(ctx, b.c, fd)
		}
		if why == nil {
			b.closeGuard, why = sys.guard(filepath.Join(b.c.Dir, serverDir), b.c.Logger,
				func() { gate.confirm(waiter{engine.Entry{}, func(error) {}}) },
				func(err error) { _ = b.failure.set(err) })
		}
		if why != nil && ctx.Err() != nil {
			return why
		}
		group = why == nil
	}
	var err error
	if b.server, b.late, err = startServer(ctx, b.c, !group, l); err != nil {
		return err
	}
	b.damage = append(b.damage, l.complaints()...)
	if group {
		gate.sync = func() error { return sys.syncfs(fd) }
	}
	b.describe(fs, group, why)
	b.gate = gate
	if b.ledger != nil {
		b.gate.flush = b.ledger.flush
	}
	return nil
}

// describe says how messages are made durable, and why not better.
func (b *Broker) describe(fs fileSystem, group bool, why error) {
	switch {
	case group:
		b.durability = "a confirmed message is on the disk: one syncfs of " + fs.name + " for all that wait"
	default:
		b.durability = "a confirmed message is on the disk: the server syncs each one"
	}
	if b.c.Sync == SyncAuto && !group {
		b.fallback = "one sync cannot confirm a group: " + why.Error()
		b.c.Logger.Warn("each message is synced by itself, which is safe and slow", "folder", b.c.Dir, "reason", why)
	}
	if fs.volatile {
		b.durability = "none: " + b.c.Dir + " is memory (" + fs.name + "); confirmed messages survive the death of the process, and go when the machine stops"
		b.c.Logger.Warn("nothing in this folder survives the end of the machine", "folder", b.c.Dir, "fileSystem", fs.name)
	}
}

// count notes a group in the ledger. The gate calls it.
func (b *Broker) count(group []waiter) {
	if b.ledger != nil {
		b.ledger.add(group)
	}
}

// check says whether the server still stores. The gate calls it.
func (b *Broker) check() error {
	if b.server.JetStreamEnabled() {
		return nil
	}
	return errors.New("the server has stopped to store; look after the disk and its free space, then start the program again")
}

// Server gives connections to the server within this process.
func (b *Broker) Server() Connector { return b.server }

// Confirm is as in [engine.Disk].
func (b *Broker) Confirm(e engine.Entry, done func(error)) {
	if !b.gate.confirm(waiter{e, done}) {
		go done(engine.ErrClosed) // ends with done; nobody waits, for there is nobody any more
	}
}

// Mark is as in [engine.Disk].
func (b *Broker) Mark(c engine.Consumer, seq uint64) error { return b.marks.mark(c, seq) }

// Marked is as in [engine.Disk].
func (b *Broker) Marked(c engine.Consumer) (seq uint64, sure bool) { return b.marks.marked(c) }

// Begin is as in [engine.Disk].
func (b *Broker) Begin(seq uint64) error { return b.marks.begin(seq) }

// End is as in [engine.Disk].
func (b *Broker) End(seq uint64) { b.marks.end(seq) }

// Begun is as in [engine.Disk].
func (b *Broker) Begun(seq uint64) bool { return b.marks.wasBegun(seq) }

// Room is as in [engine.Disk].
func (b *Broker) Room(size int64) error { return b.room.ask(size) }

// Probe is as in [engine.Disk].
func (b *Broker) Probe() { b.pulse.beat() }

// Count is as in [engine.Disk].
func (b *Broker) Count(id string) {
	b.gate.confirm(waiter{engine.Entry{Kind: engine.Accepted, ID: id}, func(error) {}})
}

// Unended is as in [engine.Disk].
func (b *Broker) Unended() (ids []string, known bool) {
	ids = make([]string, len(b.unended))
	for i := range b.unended {
		ids[i] = b.unended[i].String()
	}
	return ids, b.counted
}

// Failed is as in [engine.Disk].
func (b *Broker) Failed() <-chan struct{} { return b.failure.failed }

// Err is as in [engine.Disk].
func (b *Broker) Err() error { return b.failure.get() }

// Durability is as in [engine.Disk].
func (b *Broker) Durability() string { return b.durability }

// Fallback is as in [engine.Disk].
func (b *Broker) Fallback() string { return b.fallback }

// SyncStats is as in [engine.Disk].
func (b *Broker) SyncStats() engine.SyncStats { return b.gate.stats.get() }

// Damage says what was found damaged at the start, each in a sentence. It was
// logged too.
func (b *Broker) Damage() []string { return b.damage }

// Close answers what waits, makes all durable, and stops the server. The
// clients' connections are to be closed before. When ctx ends first, Close
// returns its error, and the rest goes on by itself.
func (b *Broker) Close(ctx context.Context) error {
	b.closing.Do(func() {
		go b.close() // ends by itself; Close waits for it
	})
	select {
	case <-b.closed:
		return b.closeOf
	case <-ctx.Done():
		return fmt.Errorf("the server is still stopping: %w", context.Cause(ctx))
	}
}

func (b *Broker) close() {
	defer close(b.closed)
	b.pulse.close()
	b.gate.close()
	b.closeOf = b.abandon()
	if b.closeOf != nil {
		b.c.Logger.Error("the store was not closed in order", "error", b.closeOf)
	}
}

// abandon ends what was started, in the order that the next start needs: the
// marks say that all was in order only after all else is on the disk.
func (b *Broker) abandon() error {
	var errs []error
	if b.server != nil {
		stopServer(b.server)
	}
	if b.closeGuard != nil {
		errs = append(errs, b.closeGuard())
	}
	if b.gate != nil && b.gate.sync != nil && b.failure.get() == nil {
		errs = append(errs, b.gate.sync())
	}
	if b.ledger != nil {
		errs = append(errs, b.ledger.close())
	}
	if b.marks != nil {
		clean := b.gate != nil && b.failure.get() == nil && errors.Join(errs...) == nil
		errs = append(errs, b.marks.close(clean))
	}
	if b.closeFD != nil {
		errs = append(errs, b.closeFD())
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}
