// Package transfer copies everything that one store holds to another, of whatever kind,
// or to lines of JSON and back: jobs, including scheduled ones, outcomes, dead jobs, the
// state of keys, batches, chains and schedules, and which queues are paused.
//
// No program may use the two stores meanwhile: each message is read once, so a job that
// is taken or put during the copy could be in both stores or in none. A folder can be
// opened by only one program; for a server, [Copy] and [Export] report [ErrChanged]. Jobs
// that were handed out when the store was last used are copied as waiting jobs.
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
	// ErrChanged means that the store was in use while it was read.
	ErrChanged = errors.New("the store has changed while it was read")
	// ErrNotEmpty means that the destination is not empty.
	ErrNotEmpty = errors.New("the store to copy to is not empty")
)

// Summary counts what was copied.
type Summary struct {
	Jobs      int64 `json:"jobs"`      // waiting or scheduled
	Scheduled int64 `json:"scheduled"` // those of Jobs that wait for their time
	Outcomes  int64 `json:"outcomes"`
	Dead      int64 `json:"dead"`
	State     int64 `json:"state"`  // records of keys, batches, schedules and the like
	Paused    int64 `json:"paused"` // paused priorities of queues
}

// item is one thing that a store holds: a message or a paused consumer.
type item struct {
	Stream  string     `json:"stream,omitempty"`
	Subject string     `json:"subject,omitempty"`
	At      *time.Time `json:"at,omitempty"`      // when a job with a time appears
	Expires *time.Time `json:"expires,omitempty"` // when a message of State expires
	Data    []byte     `json:"data,omitempty"`
	Paused  *paused    `json:"paused,omitempty"`
}

type paused struct {
	Queue    string `json:"queue"`
	Priority string `json:"priority"`
	Grouped  bool   `json:"grouped,omitempty"`
}

// sink receives items.
type sink interface {
	put(i item) error
	// finish returns when everything put is stored.
	finish(s Summary) error
}

// order is the order of the streams: jobs come last, so that everything that belongs to a
// job is stored before it.
var order = []engine.Stream{engine.State, engine.Dead, engine.Outcomes, engine.Jobs}

// Copy copies everything that from holds to to, which must be empty. If it fails, to
// holds a part.
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

// read passes everything a store holds to a sink.
func read(ctx context.Context, from engine.Engine, to sink) (Summary, error) {
	// Without a deadline a walk over a server would end after a minute.
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

// unchanged returns an error if something was put into a store since before.
func unchanged(ctx context.Context, e engine.Engine, before engine.Info) error {
	after, err := e.Info(ctx)
	if err != nil {
		return err
	}
	for _, s := range order[:len(order)-1] { // not Jobs, where jobs may have reached their time
		if was, is := before.Streams[s].Last, after.Streams[s].Last; was != is {
			return fmt.Errorf("%w: %d messages of %v were added: stop all daemons that use it, then copy again", ErrChanged, is-was, s)
		}
	}
	return nil
}

// stream reads one stream to its end, including jobs that appear behind it because their
// time has come.
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

// message passes on one message.
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
