package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// The most messages of a consumer that may be handed out at once, and the most requests
// that may wait. The server keeps both in memory only as they occur, so high bounds cost
// nothing.
const (
	mostTaken    = 65536
	mostRequests = 65536
	// mostKept is the same bound for jobs with a group, which are kept before they begin.
	mostKept = 1 << 20
)

// pauseFor is the length of a pause without an end.
const pauseFor = 100 * 365 * 24 * time.Hour

func consumerName(c engine.Consumer) string { return "w_" + c.Queue + "_" + c.Level() }

// filter returns the subjects that a consumer takes.
func filter(c engine.Consumer) string { return "job." + c.Queue + "." + c.Level() + ".>" }

// consumer returns the name of c on the server. It creates or updates the consumer when
// this engine uses it for the first time.
func (e *Engine) consumer(ctx context.Context, c engine.Consumer) (string, error) {
	name := consumerName(c)
	if e.closed.Load() {
		return "", engine.ErrClosed
	}
	e.mu.Lock()
	_, known := e.consumers[c]
	e.mu.Unlock()
	if known {
		return name, nil
	}
	if c.Queue == "" || c.Priority == "" || strings.ContainsAny(c.Queue+c.Priority, ". *>/\\\t\r\n") {
		return "", fmt.Errorf("jet: a consumer of the queue %q and the priority %q: each is one token", c.Queue, c.Priority)
	}
	config := jetstream.ConsumerConfig{
		Durable:       name,
		Description:   "who works " + c.Queue + ", " + c.Priority,
		FilterSubject: e.prefix + filter(c),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       e.config.Options.Lease,
		MaxDeliver:    -1,
		MaxAckPending: mostTaken,
		MaxWaiting:    mostRequests,
	}
	if c.Grouped {
		config.MaxAckPending = mostKept
	}
	if _, err := e.js.CreateOrUpdateConsumer(ctx, e.addresses[engine.Jobs].name, config); err != nil {
		return "", e.trouble("making the consumer "+name, err)
	}
	e.mu.Lock()
	e.consumers[c] = struct{}{}
	e.mu.Unlock()
	return name, nil
}

// forget makes the engine create the consumer again, because it was removed. It runs once
// at a time.
func (e *Engine) forget(c engine.Consumer) {
	e.mu.Lock()
	_, making := e.making[c]
	if !making {
		delete(e.consumers, c)
		e.making[c] = struct{}{}
	}
	e.mu.Unlock()
	if making {
		return
	}
	e.background(func() {
		ctx, cancel := context.WithTimeout(e.life, apiPatience)
		defer cancel()
		if _, err := e.consumer(ctx, c); err != nil && !errors.Is(err, engine.ErrClosed) {
			e.log.Warn("jet: a consumer is missing and could not be created", "consumer", consumerName(c), "error", err)
		}
		e.mu.Lock()
		delete(e.making, c)
		e.mu.Unlock()
	})
}

// Depth implements [engine.Engine]. The server counts messages that were given back as
// taken, even when their delay has passed. The engine corrects that for its own; those of
// other nodes, and of an earlier process, count as taken until they are handed out again.
// In a cluster the server that counts may not be the one that confirmed a put, and then
// learns of the put a moment later.
func (e *Engine) Depth(ctx context.Context, c engine.Consumer) (engine.Depth, error) {
	name, err := e.consumer(ctx, c)
	if err != nil {
		return engine.Depth{}, err
	}
	handle, err := e.lookAt(ctx, name)
	if err != nil {
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			e.forget(c) //nolint:contextcheck // It goes on when the call has ended.
		}
		return engine.Depth{}, e.trouble("reading the consumer "+name, err)
	}
	info := handle.CachedInfo()
	back := min(e.back.count(c), info.NumAckPending)
	d := engine.Depth{Waiting: int(info.NumPending) + back, Taken: info.NumAckPending - back, Paused: info.Paused}
	if d.Waiting+d.Taken == 0 {
		return d, nil
	}
	m, err := e.oldest(ctx, c, d.Waiting+d.Taken, info.AckFloor.Stream)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return engine.Depth{}, err
	}
	d.Oldest = m.Time
	return d, nil
}

// manyJobs is the number of jobs from which the server's own search for the first one is
// the slower way.
const manyJobs = 10_000

// oldest returns the first message of a consumer that has n of them, none of which lies
// at floor or before. Asked from the start of the stream, the server looks at every
// subject that matches, 50 ms for a million. Asked from a later number, it reads on to
// the next message.
func (e *Engine) oldest(ctx context.Context, c engine.Consumer, n int, floor uint64) (engine.Message, error) {
	if n < manyJobs {
		return e.next(ctx, engine.Jobs, filter(c), 1)
	}
	info, err := e.streamInfo(ctx, engine.Jobs)
	if err != nil {
		return engine.Message{}, err
	}
	from := max(floor+1, info.State.FirstSeq)
	m, err := e.bySequence(ctx, engine.Jobs, from)
	if err == nil && engine.Matches(filter(c), m.Subject) || err != nil && !errors.Is(err, engine.ErrNotFound) {
		return m, err
	}
	return e.next(ctx, engine.Jobs, filter(c), from+1)
}

// firstLook bounds the first attempt to read a consumer.
const firstLook = 100 * time.Millisecond

// lookAt returns what the server knows of a consumer. In a cluster no server answers
// while the consumer's servers elect a leader, as when it was just created; asking again
// does no harm.
func (e *Engine) lookAt(ctx context.Context, name string) (jetstream.Consumer, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, apiPatience)
		defer cancel()
	}
	for patience := firstLook; ; patience *= 2 {
		try, cancel := context.WithTimeout(ctx, patience)
		handle, err := e.js.Consumer(try, e.addresses[engine.Jobs].name, name)
		silent := try.Err() != nil && ctx.Err() == nil
		cancel()
		if !silent || err == nil {
			return handle, err
		}
	}
}

// next returns the first message of a subject, starting at a sequence number.
func (e *Engine) next(ctx context.Context, s engine.Stream, subject string, from uint64) (engine.Message, error) {
	return e.read(ctx, s, e.nextQuestion(subject, from, 0))
}

// bySequence returns the message with a sequence number.
func (e *Engine) bySequence(ctx context.Context, s engine.Stream, seq uint64) (engine.Message, error) {
	return e.read(ctx, s, append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), '}'))
}

// read asks the server that has the newest messages for one of them.
func (e *Engine) read(ctx context.Context, s engine.Stream, question []byte) (engine.Message, error) {
	if e.config.Replicas > 1 {
		return e.fromLeader(ctx, s, question)
	}
	return e.direct(ctx, s, question)
}

// Pause implements [engine.Engine].
func (e *Engine) Pause(ctx context.Context, c engine.Consumer, paused bool) error {
	name, err := e.consumer(ctx, c)
	if err != nil {
		return err
	}
	stream := e.addresses[engine.Jobs].name
	if paused {
		_, err = e.js.PauseConsumer(ctx, stream, name, time.Now().Add(pauseFor))
	} else {
		_, err = e.js.ResumeConsumer(ctx, stream, name)
	}
	if err == nil {
		err = e.isPaused(ctx, name, paused)
	}
	if err == nil && !paused {
		err = e.nudge(stream, name)
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		e.forget(c) //nolint:contextcheck // It goes on when the call has ended.
	}
	if err != nil {
		return e.trouble("pausing or resuming the consumer "+name, err)
	}
	return nil
}

// Paused implements [engine.Engine].
func (e *Engine) Paused(ctx context.Context) (all []engine.Consumer, err error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	stream, err := e.js.Stream(ctx, e.addresses[engine.Jobs].name)
	if err != nil {
		return nil, e.trouble("reading the stream of jobs", err)
	}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		of, ours := strings.CutPrefix(info.Config.FilterSubject, e.prefix)
		if c, _, ok := engine.ParseJob(strings.TrimSuffix(of, ">") + "id"); ours && ok && info.Paused {
			all = append(all, c)
		}
	}
	if err := list.Err(); err != nil {
		return nil, e.trouble("listing the consumers", err)
	}
	return all, nil
}

// isPaused waits until a consumer follows its setting: a cluster answers before the
// server that hands out has applied it.
func (e *Engine) isPaused(ctx context.Context, name string, paused bool) error {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	const pause = 10 * time.Millisecond
	for {
		handle, err := e.lookAt(ctx, name)
		if err != nil || handle.CachedInfo().Paused == paused {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("the server accepted it but has not done it yet: %w", ctx.Err())
		}
	}
}

// nudge wakes a consumer that was resumed: the server does not look at waiting requests
// until something happens to the consumer. The event is a request too small for any
// message, whose answer has no receiver.
func (e *Engine) nudge(stream, name string) error {
	const question = `{"batch":1,"max_bytes":1,"expires":1000000}`
	return e.conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+name, e.conn.NewInbox(), []byte(question))
}
