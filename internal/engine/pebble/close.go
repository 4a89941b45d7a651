package pebble

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Close ends all takers, writes what was put before, and closes the store.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		go e.shut() // ends when all has ended; Close waits for it, at most until ctx ends
	}
	select {
	case <-e.ended:
	default:
		select {
		case <-e.ended:
		case <-ctx.Done():
			return fmt.Errorf("close the store: takers or the disk are still at work: %w", context.Cause(ctx))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

func (e *Engine) shut() {
	close(e.stop)
	e.mu.Lock()
	takers := slices.Collect(maps.Keys(e.takers))
	e.mu.Unlock()
	for _, t := range takers {
		t.stop()
	}
	e.running.Wait()
	e.queue.close()
	<-e.writing
	err := e.handouts.close()
	err = errors.Join(err, e.closeData(), e.synced.file.Close())
	e.mu.Lock()
	e.closing = err
	e.mu.Unlock()
	close(e.ended)
}

// closeData closes the database, if it is open, and unlocks the folder. A Pebble that has
// halted cannot be closed: its memory is lost until the process ends.
func (e *Engine) closeData() error {
	if e.isHalted() {
		return e.abandonData()
	}
	e.open.Lock()
	db := e.db
	e.db = nil
	e.open.Unlock()
	if db == nil {
		return e.held.Close()
	}
	sound := e.Err() == nil
	err := e.untilHalt(func() error {
		if !sound {
			return db.Close()
		}
		// Flushed data need not be read from the log at the next start.
		return errors.Join(db.Flush(), db.Close())
	})
	if e.isHalted() {
		return errors.Join(err, e.abandonData())
	}
	if sound && err == nil {
		err = e.folder.explain(e.folder.seal())
	}
	return errors.Join(err, e.held.Close())
}

// abandonData unlocks the folder once Pebble no longer changes anything in it.
func (e *Engine) abandonData() error {
	e.files.close()
	return e.held.Close()
}

// Shared reports false: no other node can use the same store.
func (e *Engine) Shared() bool { return false }

// Send does nothing: there is no other node.
func (e *Engine) Send(string, []byte) error { return e.usable() }

// Listen never calls receive: there is no other node.
func (e *Engine) Listen(string, func(subject string, data []byte)) (stop func(), err error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	return func() {}, nil
}

var _ engine.Engine = (*Engine)(nil)
