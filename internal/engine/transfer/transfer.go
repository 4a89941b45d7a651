// Package transfer copies all that one store holds to another, of whatever kind, or to
// lines of JSON and back: jobs, those that wait for their time, outcomes, dead jobs, the
// state of keys, batches, chains and schedules, and which queues are paused.
//
// Nobody may work on the two stores meanwhile: what a store holds is handed on once, so
// that a job that is taken or put during the copy would be in both, or in none. A folder
// can be opened by one program only; of a server, [Copy] and [Export] report
// [ErrChanged]. Jobs that were in somebody's hands when the store was used last are
// copied as jobs that wait.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

var (
	// ErrChanged says that the store that was read is in use.
	ErrChanged = errors.New("the store has changed while it was read")
	// ErrNotEmpty says that the store to copy to holds something.
	ErrNotEmpty = errors.New("the store to copy to is not empty")
)

// Summary counts what was copied.
type Summary struct {
	Jobs      int64 `json:"jobs"`      // that wait, or wait for their time
	Scheduled int64 `json:"scheduled"` // of Jobs, those that wait for their time
	Outcomes  int64 `json:"outcomes"`
	Dead      int64 `json:"dead"`
	State     int64 `json:"state"`  // records of keys, batches, schedules and the like
	Paused    int64 `json:"paused"` // priorities of queues
}

// item is one thing that a store holds: a message, or a consumer that is paused.
type item struct {
	Stream  string     `json:"stream,omitempty"`
	Subject string     `json:"subject,omitempty"`
	At      *time.Time `json:"at,omitempty"`      // when a job appears that waits for its time
	Expires *time.Time `json:"expires,omitempty"` // when a message of state goes
	Data    []byte     `json:"data,omitempty"`
	Paused  *paused    `json:"paused,omitempty"`
}

type paused struct {
	Queue    string `json:"queue"`
	Priority string `json:"priority"`
	Grouped  bool   `json:"grouped,omitempty"`
}

// sink takes items.
type sink interface {
	put(i item) error
	// finish returns when all that was put is kept.
	finish(s Summary) error
}

// order is that of the streams: jobs come last, so that whatever belongs to a job is
// there before it.
var order = []engine.Stream{engine.State, engine.Dead, engine.Outcomes, engine.Jobs}

// Copy copies all that from holds to to, which must be empty. When it fails, to holds a
// part.
func Copy(ctx context.Context, from, to engine.Engine) (Summary, error) {
	if err := empty(ctx, to); err != nil {
		return Summary{}, err
	}
	return read(ctx, from, newFiller(ctx, to))
}

// empty returns an error if a store holds something.
func empty(ctx context.Context, e engine.Engine) error {
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	for _, s := range order {
		if n := info.Streams[s].Messages; n > 0 {
			return fmt.Errorf("%w: it has %d messages of %v", ErrNotEmpty, n, s)
		}
	}
	return nil
}

// reader reads a store.
type reader struct {
	from    engine.Engine
	to      sink
	summary Summary
	timed   map[string]struct{} // ids of jobs that waited for their time when they were read
}

// read hands all that a store holds to a sink.
func read(ctx context.Context, from engine.Engine, to sink) (Summary, error) {
	// Without a deadline of its own a walk over a server ends after a minute.
	ctx, cancel := context.WithTimeout(ctx, 1000*time.Hour)
	defer cancel()
	r := &reader{from: from, to: to, timed: map[string]struct{}{}}
	before, err := from.Info(ctx)
	if err != nil {
		return r.summary, err
	}
	all, err := from.Paused(ctx)
	if err != nil {
		return r.summary, err
	}
	for _, c := range all {
		if err := to.put(item{Paused: &paused{c.Queue, c.Priority, c.Grouped}}); err != nil {
			return r.summary, err
		}
		r.summary.Paused++
	}
	for _, s := range order {
		if err = r.stream(ctx, s, before.MaxMessage); err != nil {
			break
		}
	}
	if err == nil || errors.Is(err, engine.ErrConflict) { // a message that has moved is found twice
		err = cmp.Or(unchanged(ctx, from, before), err)
	}
	if err == nil {
		err = to.finish(r.summary)
	}
	return r.summary, err
}

// unchanged returns an error if something was put into a store.
func unchanged(ctx context.Context, e engine.Engine, before engine.Info) error {
	after, err := e.Info(ctx)
	if err != nil {
		return err
	}
	for _, s := range order[:len(order)-1] { // of jobs, some may have come to their time
		if was, is := before.Streams[s].Last, after.Streams[s].Last; was != is {
			return fmt.Errorf("%w: %d messages of %v have come: stop all that works on it, then copy again", ErrChanged, is-was, s)
		}
	}
	return nil
}

// stream reads one stream to its end, and on while jobs whose time has come appear
// behind that.
func (r *reader) stream(ctx context.Context, s engine.Stream, largest int) error {
	for at := uint64(1); ; {
		info, err := r.from.Info(ctx)
		if err != nil {
			return err
		}
		last := info.Streams[s].Last
		if last < at {
			return nil
		}
		var failed error
		_, err = r.from.Walk(ctx, s, engine.Walk{From: at, Largest: largest}, func(m engine.Message) bool {
			last = max(last, m.Seq)
			failed = r.message(m)
			return failed == nil
		})
		if err = errors.Join(failed, err); err != nil {
			return err
		}
		at = last + 1
	}
}

// message hands on one message.
func (r *reader) message(m engine.Message) error {
	i := item{Stream: m.Stream.String(), Subject: m.Subject, Data: m.Data}
	switch m.Stream {
	case engine.Jobs:
		id := engine.LastToken(m.Subject)
		if !m.At.IsZero() {
			i.Subject, i.At = m.Target, &m.At
			r.timed[id] = struct{}{}
			r.summary.Scheduled++
		} else if _, ok := r.timed[id]; ok {
			return nil // its time has come since it was read
		}
		r.summary.Jobs++
	case engine.Outcomes:
		r.summary.Outcomes++
	case engine.Dead:
		r.summary.Dead++
	case engine.State:
		if !m.Expires.IsZero() {
			i.Expires = &m.Expires
		}
		r.summary.State++
	}
	return r.to.put(i)
}
