package pebble

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const (
	// walkPage is how many messages of a walk are read at a time.
	walkPage = 64
	// walkBytes bounds their size, approximately.
	walkBytes = 8 << 20
)

// Walk calls visit for each message, starting at w.From.
func (e *Engine) Walk(ctx context.Context, s engine.Stream, w engine.Walk, visit func(engine.Message) bool) (next uint64, err error) {
	if err := engine.CheckStream(s); err != nil {
		return w.From, err
	}
	at := w.From
	for {
		if err := e.begun(ctx, "walk"); err != nil {
			return at, err
		}
		page, then, err := e.page(s, paging{at: at, back: w.Back, most: walkPage, bytes: walkBytes})
		e.open.RUnlock()
		if err != nil {
			return at, e.readError(err)
		}
		for i, m := range page {
			if visit(m) {
				continue
			}
			switch {
			case w.Back:
				return m.Seq - 1, nil
			case i == len(page)-1 && then == 0:
				return 0, nil
			}
			return m.Seq + 1, nil
		}
		if at = then; at == 0 {
			return 0, nil
		}
	}
}

// Matching returns the number of messages whose subject matches.
func (e *Engine) Matching(ctx context.Context, s engine.Stream, subject string) (n int64, err error) {
	if err := engine.CheckStream(s); err != nil {
		return 0, err
	}
	if err := e.begun(ctx, "matching "+subject); err != nil {
		return 0, err
	}
	defer e.open.RUnlock()
	if token := engine.LastToken(subject); (token == "*" || token == ">") && (s == engine.Jobs || s == engine.Dead) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for of, count := range e.sums.numbers {
			if of.stream == s && engine.Matches(subject, of.front+".any") {
				n += count
			}
		}
		return n, nil
	}
	start, ok := indexStart(s, subject)
	if !ok {
		start = ""
		if s == engine.State {
			start = subject[:strings.IndexAny(subject+"*", "*>")]
		}
	}
	err = e.eachEntry(s, start, subject, func(entry) { n++ })
	return n, e.readError(err)
}

// Delete removes a message.
func (e *Engine) Delete(ctx context.Context, s engine.Stream, seq uint64) error {
	if err := engine.CheckStream(s); err != nil {
		return err
	}
	return e.ask(ctx, "delete", operation{kind: removing, stream: s, seq: seq})
}

// Pause pauses c, or resumes it.
func (e *Engine) Pause(ctx context.Context, c engine.Consumer, paused bool) error {
	if err := engine.CheckSubject(engine.JobSubject(c, "id")); err != nil {
		return err
	}
	return e.ask(ctx, "pause", operation{kind: pausing, of: c, on: paused})
}

// Paused returns the paused consumers.
func (e *Engine) Paused(ctx context.Context) (all []engine.Consumer, err error) {
	if err := e.begun(ctx, "paused"); err != nil {
		return nil, err
	}
	defer e.open.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, c := range e.consumers {
		if c.paused {
			all = append(all, name)
		}
	}
	return all, nil
}

// ask gives an operation to the committer and waits for its answer.
func (e *Engine) ask(ctx context.Context, what string, o operation) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if err := e.usable(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	o.done = func(_ uint64, err error) { answer <- err }
	if e.queue.give(o) {
		return engine.ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// Depth returns the number of messages that c has.
func (e *Engine) Depth(ctx context.Context, name engine.Consumer) (engine.Depth, error) {
	if err := e.begun(ctx, "depth"); err != nil {
		return engine.Depth{}, err
	}
	defer e.open.RUnlock()
	e.mu.Lock()
	c := e.consumers[name]
	if c == nil {
		c = e.newConsumer(name)
	}
	d := engine.Depth{Waiting: max(c.stored()-c.held, 0), Taken: c.held, Paused: c.paused}
	stored, from := c.stored(), c.oldest
	e.mu.Unlock()
	if stored == 0 {
		return d, nil
	}
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: e.space.ready(name, from), UpperBound: after(e.space.ready(name, 1<<64-1))})
	if err != nil {
		return d, e.readError(err)
	}
	if iter.First() {
		at, err := readTime(iter.Value())
		if err != nil {
			iter.Close() //nolint:errcheck // the other error is returned
			return d, e.readError(err)
		}
		d.Oldest = time.Unix(0, at)
		from, _ = seqOf(iter.Key())
		e.mu.Lock()
		c.oldest = max(c.oldest, from)
		e.mu.Unlock()
	}
	return d, e.readError(iter.Close())
}

// Info describes the store.
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	if err := e.begun(ctx, "info"); err != nil {
		return engine.Info{}, err
	}
	defer e.open.RUnlock()
	e.mu.Lock()
	streams := e.sums.streams
	e.mu.Unlock()
	i := engine.Info{
		Kind: "embedded", Replicas: 1, Streams: map[engine.Stream]engine.Usage{}, Sync: e.syncs.stats(),
		Durability: "every confirmed write is on disk: waiting writes share one fdatasync",
	}
	for _, s := range engine.Streams() {
		t := streams[s]
		u := engine.Usage{Messages: t.messages, Bytes: t.bytes, First: t.last + 1, Last: t.last}
		if t.messages > 0 {
			first, err := e.firstOf(s)
			if err != nil {
				return engine.Info{}, e.readError(err)
			}
			u.First = min(first, u.First)
		}
		i.Streams[s] = u
	}
	return i, nil
}

// firstOf returns the number of the first message of a stream.
func (e *Engine) firstOf(s engine.Stream) (uint64, error) {
	hint := &e.firsts[s]
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: e.space.message(s, hint.Load()), UpperBound: e.space.message(s+1, 0)})
	if err != nil {
		return 0, err
	}
	seq := uint64(1<<64 - 1)
	if iter.First() {
		seq, _ = seqOf(iter.Key())
		hint.Store(seq) // concurrent calls may both store; both are right, or the messages before have gone
	}
	return seq, iter.Close()
}
