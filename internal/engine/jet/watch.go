package jet

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// tick is how often the watcher looks for overdue answers and requests.
const tick = 250 * time.Millisecond

// watch starts the watcher: a goroutine that follows the connection and handles what is
// overdue at each tick. It ends when the engine is closed; Close waits for it.
func (e *Engine) watch() {
	e.connected.Store(e.conn.IsConnected())
	status := e.conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	reconnects := e.conn.Stats().Reconnects
	e.goroutines.Go(func() {
		defer e.conn.RemoveStatusListener(status)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		changes := status
		for {
			select {
			case <-e.life.Done():
				return
			case _, open := <-changes:
				if !open {
					changes = nil
				}
			case <-ticker.C:
				e.ticks.Add(1)
				e.look()
				e.sweep()
			}
			// The listener may miss a change, so the state itself decides.
			reconnects = e.follow(reconnects)
		}
	})
}

// follow records whether there is a connection, and handles a new one. It returns the
// number of reconnections.
func (e *Engine) follow(reconnects uint64) uint64 {
	now := e.conn.IsConnected()
	count := e.conn.Stats().Reconnects
	was := e.connected.Load()
	if was && (!now || count != reconnects) {
		e.lostConnection()
	}
	if now && (!was || count != reconnects) {
		e.connected.Store(true)
		e.newConnection()
	}
	return count
}

func (e *Engine) lostConnection() {
	e.connected.Store(false)
	e.old.Store(oldest)
	e.log.Warn("jet: the connection to the store was lost")
	e.sweepPuts(true)
}

func (e *Engine) newConnection() {
	e.log.Info("jet: connected to the store again", "server", e.conn.ConnectedUrlRedacted())
	e.background(e.lookAgain)
	for _, t := range e.allTakers() {
		t.reset()
	}
}

func (e *Engine) allTakers() []*taker {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*taker, 0, len(e.takers))
	for t := range e.takers {
		all = append(all, t)
	}
	return all
}

// sweep ends what is overdue.
func (e *Engine) sweep() {
	e.sweepPuts(!e.connected.Load())
	for _, t := range e.allTakers() {
		t.sweep()
	}
	e.sweepLeaving()
}

// look reads the size of the stream of jobs if that is due.
func (e *Engine) look() {
	if !e.connected.Load() || !e.jobs.due(e.ticks.Load()) {
		return
	}
	settled := e.jobs.look()
	e.background(func() {
		ctx, cancel := context.WithTimeout(e.life, apiPatience)
		defer cancel()
		info, err := e.streamInfo(ctx, engine.Jobs)
		if err != nil {
			e.jobs.failed()
			return
		}
		e.jobs.looked(info.State.Bytes, settled)
	})
}
