package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Settle calls done at once: nothing here survives a loss of power.
func (e *Engine) Settle(done func(err error)) {
	e.store.mu.Lock()
	err := e.usable()
	e.store.mu.Unlock()
	done(err)
}

// Get returns the newest message whose subject matches.
func (e *Engine) Get(ctx context.Context, s engine.Stream, subject string) (engine.Message, error) {
	if err := e.begin(ctx, Operation{Name: "get", Stream: s, Subject: subject}); err != nil {
		return engine.Message{}, err
	}
	defer e.store.mu.Unlock()
	st, err := e.stream(s)
	if err != nil {
		return engine.Message{}, err
	}
	r := st.newest(subject)
	if r == nil {
		return engine.Message{}, fmt.Errorf("get %s: %w", subject, engine.ErrNotFound)
	}
	return r.message(), nil
}

// Delete removes a message.
func (e *Engine) Delete(ctx context.Context, s engine.Stream, seq uint64) error {
	if err := e.begin(ctx, Operation{Name: "delete", Stream: s, Seq: seq}); err != nil {
		return err
	}
	defer e.store.mu.Unlock()
	st, err := e.stream(s)
	if err != nil {
		return err
	}
	if r := st.find(seq); r != nil {
		e.space.remove(r)
	}
	return nil
}

// Scan returns up to limit messages whose subject matches, starting at a sequence number.
func (e *Engine) Scan(ctx context.Context, s engine.Stream, subject string, from uint64, limit int) ([]engine.Message, error) {
	if err := e.begin(ctx, Operation{Name: "scan", Stream: s, Subject: subject}); err != nil {
		return nil, err
	}
	defer e.store.mu.Unlock()
	st, err := e.stream(s)
	if err != nil {
		return nil, err
	}
	var found []engine.Message
	for _, r := range st.records.from(from) {
		if len(found) >= limit {
			break
		}
		if !r.isGone() && engine.Matches(subject, r.Subject) {
			found = append(found, r.message())
		}
	}
	return found, nil
}

// Walk calls visit for each message, starting at w.From.
func (e *Engine) Walk(ctx context.Context, s engine.Stream, w engine.Walk, visit func(engine.Message) bool) (next uint64, err error) {
	at := w.From
	for {
		page, err := e.page(ctx, s, at, w.Back)
		if err != nil {
			return at, err
		}
		for _, m := range page {
			at = m.Seq + 1
			if w.Back {
				at = m.Seq - 1
			}
			if !visit(m) {
				return at, nil
			}
		}
		if len(page) == 0 || at == 0 {
			return 0, nil
		}
	}
}

// walkPage is how many messages are copied at a time.
const walkPage = 64

// page returns the next messages of a walk. If at is 0, it starts at the end of the
// stream that the walk begins with.
func (e *Engine) page(ctx context.Context, s engine.Stream, at uint64, back bool) ([]engine.Message, error) {
	if err := e.begin(ctx, Operation{Name: "walk", Stream: s}); err != nil {
		return nil, err
	}
	defer e.store.mu.Unlock()
	st, err := e.stream(s)
	if err != nil {
		return nil, err
	}
	records := st.records.from(at)
	if back {
		all := st.records.from(0)
		if records = all; at > 0 {
			records = all[:len(all)-len(st.records.from(at+1))]
		}
	}
	var found []engine.Message
	for i := range records {
		r := records[i]
		if back {
			r = records[len(records)-1-i]
		}
		if !r.isGone() {
			found = append(found, r.message())
		}
		if len(found) == walkPage {
			break
		}
	}
	return found, nil
}

// Matching returns the number of messages whose subject matches.
func (e *Engine) Matching(ctx context.Context, s engine.Stream, subject string) (int64, error) {
	if err := e.begin(ctx, Operation{Name: "matching", Stream: s, Subject: subject}); err != nil {
		return 0, err
	}
	defer e.store.mu.Unlock()
	st, err := e.stream(s)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, r := range st.records.from(0) {
		if !r.isGone() && engine.Matches(subject, r.Subject) {
			n++
		}
	}
	return n, nil
}

func (e *Engine) stream(s engine.Stream) (*stream, error) {
	if int(s) >= len(e.space.streams) {
		return nil, fmt.Errorf("there is no stream %d", s)
	}
	return &e.space.streams[s], nil
}

// Take starts to take messages of c.
func (e *Engine) Take(c engine.Consumer, deliver func(engine.Delivery), returned func(n int)) (engine.Taker, error) {
	if err := e.begin(context.Background(), of("take", c)); err != nil {
		return nil, err
	}
	defer e.store.mu.Unlock()
	if err := engine.CheckSubject(engine.JobSubject(c, "id")); err != nil {
		return nil, err
	}
	t := &taker{
		engine: e, consumer: e.space.consumer(c), grouped: c.Grouped, deliver: deliver, returned: returned,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	t.consumer.takers = append(t.consumer.takers, t)
	e.takers[t] = struct{}{}
	e.running.Add(1)
	go t.run()
	return t, nil
}

func of(name string, c engine.Consumer) Operation {
	return Operation{Name: name, Stream: engine.Jobs, Subject: "job." + c.Queue + "." + c.Level()}
}

// Depth returns the number of messages that c has.
func (e *Engine) Depth(ctx context.Context, c engine.Consumer) (engine.Depth, error) {
	if err := e.begin(ctx, of("depth", c)); err != nil {
		return engine.Depth{}, err
	}
	defer e.store.mu.Unlock()
	if found := e.space.consumers[c]; found != nil {
		return found.depth(), nil
	}
	return engine.Depth{}, nil
}

// Pause pauses c, or resumes it.
func (e *Engine) Pause(ctx context.Context, c engine.Consumer, paused bool) error {
	if err := e.begin(ctx, of("pause", c)); err != nil {
		return err
	}
	defer e.store.mu.Unlock()
	if err := engine.CheckSubject(engine.JobSubject(c, "id")); err != nil {
		return err
	}
	found := e.space.consumer(c)
	found.paused = paused
	found.wake()
	return nil
}

// Paused returns the paused consumers.
func (e *Engine) Paused(ctx context.Context) (all []engine.Consumer, err error) {
	if err := e.begin(ctx, Operation{Name: "paused"}); err != nil {
		return nil, err
	}
	defer e.store.mu.Unlock()
	for name, c := range e.space.consumers {
		if c.paused {
			all = append(all, name)
		}
	}
	return all, nil
}

// Shared returns Store.Shared.
func (e *Engine) Shared() bool { return e.store.Shared }

// Failed is closed by [Store.Fail].
func (e *Engine) Failed() <-chan struct{} { return e.failed }

// Err returns why the store has failed.
func (e *Engine) Err() error {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return e.store.err
}

// Info describes the store.
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	if err := e.begin(ctx, Operation{Name: "info"}); err != nil {
		return engine.Info{}, err
	}
	defer e.store.mu.Unlock()
	i := engine.Info{
		Kind: "memory", Durability: "in the memory of this process: lost when it ends", Replicas: 1,
		Streams: map[engine.Stream]engine.Usage{},
	}
	for n := range e.space.streams {
		i.Streams[engine.Stream(n)] = e.space.streams[n].usage()
	}
	return i, nil
}

// Close ends all takers and listeners. Delayed answers to puts come before it returns.
// Messages that were handed out and not answered are handed out again after their lease.
func (e *Engine) Close(ctx context.Context) error {
	e.store.mu.Lock()
	first := !e.closed
	e.closed = true
	takers, held := slices.Collect(maps.Keys(e.takers)), slices.Collect(maps.Keys(e.late))
	var stops []func()
	for l := range e.space.listeners {
		if l.engine == e {
			stops = append(stops, l.stop)
		}
	}
	if first {
		if e.space.engines--; e.space.engines == 0 {
			e.space.disarm()
		}
	}
	e.store.mu.Unlock()
	if first {
		go func() { // ends when all that e started has ended; Close waits for it, at most until ctx ends
			for _, l := range held {
				if l.timer.Stop() {
					l.call()
				}
			}
			for _, t := range takers {
				t.stop()
			}
			for _, stop := range stops {
				stop()
			}
			e.running.Wait()
			close(e.ended)
		}()
	}
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-e.ended: // the close continues even if ctx has ended
		return nil
	default:
		return fmt.Errorf("close the store: takers or listeners still run: %w", context.Cause(ctx))
	}
}
