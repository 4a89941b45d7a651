package jet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// The server's headers for a put.
const (
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerSchedule = "Nats-Schedule"
	headerTarget   = "Nats-Schedule-Target"
	headerTTL      = "Nats-TTL"
)

// Put implements [engine.Engine].
func (e *Engine) Put(p engine.Put, done func(seq uint64, err error)) {
	if err := e.refuse(&p); err != nil {
		done(0, err)
		return
	}
	w := pending{put: p, done: done, began: e.ticks.Load()}
	w.sent = w.began
	if p.Stream == engine.Jobs {
		header := 0
		if p.New || p.After > 0 || !p.At.IsZero() {
			header = conditionSize
		}
		w.size = storedSize(len(e.prefix)+len(p.Subject), header, len(p.Data))
		if err := e.jobs.enter(w.size); err != nil {
			done(0, err)
			return
		}
	}
	token, err := e.puts.add(&w)
	if err != nil {
		e.jobs.answered(w.size, false)
		done(0, err)
		return
	}
	err = e.publish(&p, token)
	if waits := e.puts.sent(token); err == nil && !waits {
		err = fmt.Errorf("jet: %w: the store was closed meanwhile", engine.ErrUnknown)
	}
	if err != nil {
		if w, mine := e.puts.take(token); mine {
			e.endPut(&w, verdict{}, err)
		}
	}
}

// passingPatience is for how many ticks a put is retried that the server cannot accept at
// the moment.
const passingPatience = int64(5 * time.Second / tick)

// conditionSize is the approximate size of the headers of a put.
const conditionSize = 80

// refuse returns why p can never be stored.
func (e *Engine) refuse(p *engine.Put) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	if int(p.Stream) >= len(e.addresses) {
		return fmt.Errorf("jet: a put to %s (%d)", p.Stream, p.Stream)
	}
	if !p.At.IsZero() && p.Stream != engine.Jobs {
		return fmt.Errorf("jet: a put to %s with a time: only jobs can have one", p.Stream)
	}
	if p.TTL != 0 && p.Stream != engine.State {
		return fmt.Errorf("jet: a put to %s with a time to live: only state can have one", p.Stream)
	}
	if !e.connected.Load() {
		return e.away()
	}
	return nil
}

// away returns the error for a put without a connection. Nothing was sent.
func (e *Engine) away() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return fmt.Errorf("jet: the server is unreachable, nothing was sent: %w", nats.ErrDisconnected)
}

// publish sends p with a reply subject that contains token.
func (e *Engine) publish(p *engine.Put, token uint64) error {
	var room [192]byte
	text := append(room[:0], e.prefix...)
	if p.At.IsZero() {
		text = append(text, p.Subject...)
	} else {
		text = append(append(text, "at."...), engine.LastToken(p.Subject)...)
	}
	n := len(text)
	text = append(text, e.inbox...)
	text = strconv.AppendUint(text, token, 36)
	both := string(text) // one allocation for both
	subject, reply := both[:n], both[n:]
	if !p.New && p.After == 0 && p.At.IsZero() && p.TTL <= 0 {
		return sendFault(e.conn.PublishRequest(subject, reply, p.Data))
	}
	h := nats.Header{}
	switch {
	case p.New:
		h[headerExpected] = []string{"0"}
	case p.After > 0:
		h[headerExpected] = []string{strconv.FormatUint(p.After, 10)}
	}
	if !p.At.IsZero() {
		h[headerSchedule] = []string{"@at " + p.At.UTC().Format(time.RFC3339Nano)}
		h[headerTarget] = []string{e.prefix + p.Subject}
	}
	if p.TTL > 0 {
		// The server counts in whole seconds.
		seconds := int64((p.TTL + time.Second - 1) / time.Second)
		h[headerTTL] = []string{strconv.FormatInt(seconds, 10)}
	}
	return sendFault(e.conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: h, Data: p.Data}))
}

// sendFault translates an error of the client library. For most errors it is certain that
// nothing was sent.
func sendFault(err error) error {
	if err == nil {
		return nil
	}
	for _, unsent := range []error{
		nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		nats.ErrReconnectBufExceeded, nats.ErrHeadersNotSupported, nats.ErrInvalidConnection,
	} {
		if errors.Is(err, unsent) {
			return fmt.Errorf("jet: nothing was sent: %w", err)
		}
	}
	return fmt.Errorf("jet: %w: %w", engine.ErrUnknown, err)
}

// answered handles the server's answer to a put. It is the callback of the one
// subscription for all of them.
func (e *Engine) answered(m *nats.Msg) {
	token, err := strconv.ParseUint(m.Subject[len(e.inbox):], 36, 64)
	if err != nil {
		return // not one of ours: no other client knows this inbox
	}
	var v verdict
	if len(m.Data) == 0 && m.Header != nil {
		v = verdict{code: noAnswerer}
	} else {
		v = parseAnswer(e.addresses[tokenStream(token)].confirm, m.Data)
	}
	e.noteAnswer(!v.passing())
	if v.passing() && e.puts.later(token, e.ticks.Load()+1, passingPatience) {
		return
	}
	w, there := e.puts.take(token)
	if !there {
		return // given up before, or the second answer to a put that was sent twice
	}
	if v.conflict() && w.lost {
		// The conflict may be with what an earlier try has stored.
		e.settleLater(w, v)
		return
	}
	err = v.err(w.put.Stream)
	if err != nil && w.lost {
		err = fmt.Errorf("jet: %w: an earlier try was not answered, and the last one failed: %w", engine.ErrUnknown, err)
	}
	e.endPut(&w, v, err)
}

// settleLater is a separate function so that only this path allocates.
func (e *Engine) settleLater(w pending, v verdict) {
	if !e.background(func() { e.settle(&w, v) }) {
		e.endPut(&w, verdict{}, fmt.Errorf("jet: %w: the store was closed meanwhile", engine.ErrUnknown))
	}
}

// settle handles a put that was sent more than once and then refused because of its
// condition: it finds out whether the message that is stored is the put's own. It runs in
// a background goroutine.
func (e *Engine) settle(w *pending, v verdict) {
	ctx, cancel := context.WithTimeout(e.life, apiPatience)
	defer cancel()
	subject := w.put.Subject
	if !w.put.At.IsZero() {
		subject = "at." + engine.LastToken(subject)
	}
	m, err := e.Get(ctx, w.put.Stream, subject)
	switch {
	case err == nil && m.Seq > w.put.After && bytes.Equal(m.Data, w.put.Data):
		e.endPut(w, verdict{seq: m.Seq}, nil)
	case err == nil, errors.Is(err, engine.ErrNotFound):
		e.endPut(w, v, v.err(w.put.Stream))
	default:
		e.endPut(w, v, fmt.Errorf("jet: %w: it was sent again and then refused, and the stored message cannot be read: %w", engine.ErrUnknown, err))
	}
}

// endPut calls done for a put that was removed from the table.
func (e *Engine) endPut(w *pending, v verdict, err error) {
	if w.size > 0 {
		e.jobs.answered(w.size, err == nil || errors.Is(err, engine.ErrUnknown))
	}
	if err != nil {
		v.seq = 0
	}
	w.done(v.seq, err)
	e.puts.ended()
}

// unanswered ends puts whose answers are no longer awaited.
func (e *Engine) unanswered(over []pending, why string) {
	for i := range over {
		w := &over[i]
		err := fmt.Errorf("jet: %w: %s", engine.ErrUnknown, why)
		if !w.lost && w.resend > 0 {
			// Every try was answered, with "not now".
			err = verdict{code: noAnswerer}.err(w.put.Stream)
		}
		e.endPut(w, verdict{}, err)
	}
}

// sweepPuts retries the puts whose time has come, and gives up those whose answer is
// overdue.
func (e *Engine) sweepPuts(lost bool) {
	retry, over := e.puts.sweep(e.ticks.Load(), patience, lost)
	for _, r := range retry {
		if err := e.publish(&r.put, r.token); err != nil {
			e.log.Warn("jet: a put could not be sent again", "subject", r.put.Subject, "error", err)
		}
	}
	why := "the connection was lost before an answer came"
	if !lost {
		why = fmt.Sprintf("none within %v", time.Duration(patience)*tick)
		if len(over) > 0 {
			e.noteUseless()
		}
	}
	e.unanswered(over, why)
}
