package jet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"bufio"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// apiPatience bounds one question to the server if its caller sets no deadline.
const apiPatience = 5 * time.Second

// scanBatch is how many messages are requested at once.
const scanBatch = 512

// The server's error code for a missing message.
const codeNoMessage = 10037

// codeNoSequence and codeDeleteFailed are the codes for deleting a missing message.
const (
	codeNoSequence   = 10043
	codeDeleteFailed = 10057
)

// Settle implements [engine.Engine]. An external server answers a put only once it has
// made the message durable in its own way.
func (e *Engine) Settle(done func(err error)) {
	if e.closed.Load() {
		done(engine.ErrClosed)
		return
	}
	done(nil)
}

// Get implements [engine.Engine].
func (e *Engine) Get(ctx context.Context, s engine.Stream, subject string) (engine.Message, error) {
	return e.read(ctx, s, append(append([]byte(`{"last_by_subj":"`), e.prefix+subject...), `"}`...))
}

// direct asks any replica.
func (e *Engine) direct(ctx context.Context, s engine.Stream, question []byte) (engine.Message, error) {
	m, err := e.ask(ctx, e.addresses[s].direct, question)
	if err != nil {
		return engine.Message{}, err
	}
	if status := first(m.Header, "Status"); status != "" {
		return engine.Message{}, e.refused(s, status, first(m.Header, "Description"))
	}
	return e.message(s, m)
}

// refused returns the error for a status that came instead of a message.
func (e *Engine) refused(s engine.Stream, status, description string) error {
	if status == "404" {
		return fmt.Errorf("jet: %w in %s", engine.ErrNotFound, s)
	}
	return fmt.Errorf("jet: the server cannot read from %s: %s (%s)", s, description, status)
}

// ask sends a question and waits for one answer.
func (e *Engine) ask(ctx context.Context, subject string, question []byte) (*nats.Msg, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, apiPatience)
		defer cancel()
	}
	const pause = 100 * time.Millisecond
	for {
		if !e.connected.Load() {
			return nil, e.away()
		}
		m, err := e.askOnce(ctx, subject, question)
		if err == nil {
			return m, nil
		}
		// One of several replicas may be lost with the question, or they are electing a
		// leader; reading again does no harm.
		again := errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
		if !again || e.config.Replicas == 1 || ctx.Err() != nil {
			return nil, e.trouble("asking "+subject, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, e.trouble("asking "+subject, err)
		case <-e.life.Done():
			return nil, engine.ErrClosed
		}
	}
}

// tryPatience bounds one attempt at a question.
const tryPatience = apiPatience / 2

// askOnce asks once. A server that has not answered for long is replaced by another.
func (e *Engine) askOnce(ctx context.Context, subject string, question []byte) (*nats.Msg, error) {
	if e.config.Replicas == 1 {
		return e.conn.RequestWithContext(ctx, subject, question)
	}
	try, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	m, err := e.conn.RequestWithContext(try, subject, question)
	if err == nil || ctx.Err() == nil {
		e.noteAnswer(err == nil && !unable(m.Data))
	}
	return m, err
}

// trouble translates an error of the client library for a question.
func (e *Engine) trouble(what string, err error) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return fmt.Errorf("jet: %s: %w", what, err)
}

// first returns the first value of a header, in the server's spelling.
func first(h nats.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// message decodes a stored message from the answer to a direct question.
func (e *Engine) message(s engine.Stream, m *nats.Msg) (engine.Message, error) {
	seq, ok := number(first(m.Header, "Nats-Sequence"))
	stored, err := time.Parse(time.RFC3339Nano, first(m.Header, "Nats-Time-Stamp"))
	subject, ours := strings.CutPrefix(first(m.Header, "Nats-Subject"), e.prefix)
	if !ok || err != nil || !ours {
		return engine.Message{}, fmt.Errorf("jet: cannot parse the server's answer about %s: %q", s, m.Header)
	}
	r := engine.Message{Stream: s, Subject: subject, Data: m.Data, Seq: seq, Time: stored}
	return r, e.timed(&r, func(header string) string { return first(m.Header, header) })
}

// timed sets when and where a message with a time appears, and when one with a TTL
// expires.
func (e *Engine) timed(m *engine.Message, header func(string) string) error {
	if ttl := header(headerTTL); ttl != "" {
		seconds, err := strconv.ParseInt(ttl, 10, 64)
		if err != nil {
			return fmt.Errorf("jet: cannot parse the time to live %q of %s: %w", ttl, m.Subject, err)
		}
		m.Expires = m.Time.Add(time.Duration(seconds) * time.Second)
	}
	schedule := header(headerSchedule)
	if schedule == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(schedule, "@at "))
	if err != nil {
		return fmt.Errorf("jet: cannot parse the time %q of %s: %w", schedule, m.Subject, err)
	}
	m.At, m.Target = at, strings.TrimPrefix(header(headerTarget), e.prefix)
	return nil
}

// fromLeader asks the leader of a stream.
func (e *Engine) fromLeader(ctx context.Context, s engine.Stream, question []byte) (engine.Message, error) {
	m, err := e.ask(ctx, e.addresses[s].leader, question)
	if err != nil {
		return engine.Message{}, err
	}
	return e.leaderMessage(s, m)
}

// leaderMessage decodes a stored message from a leader's answer.
func (e *Engine) leaderMessage(s engine.Stream, m *nats.Msg) (engine.Message, error) {
	var answer struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  string    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return engine.Message{}, fmt.Errorf("jet: cannot parse the server's answer about %s: %w", s, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrCode == codeNoMessage:
		return engine.Message{}, e.refused(s, "404", "")
	case answer.Error != nil:
		return engine.Message{}, e.refused(s, strconv.Itoa(answer.Error.ErrCode), answer.Error.Description)
	case answer.Message == nil:
		return engine.Message{}, fmt.Errorf("jet: the server's answer about %s has no message", s)
	}
	subject, ours := strings.CutPrefix(answer.Message.Subject, e.prefix)
	if !ours {
		return engine.Message{}, fmt.Errorf("jet: the server answers with the subject %q, which is not in this namespace", answer.Message.Subject)
	}
	r := engine.Message{Stream: s, Subject: subject, Data: answer.Message.Data, Seq: answer.Message.Seq, Time: answer.Message.Time}
	if answer.Message.Header == "" {
		return r, nil
	}
	header, err := headersOf(answer.Message.Header)
	if err != nil {
		return engine.Message{}, fmt.Errorf("jet: cannot parse the headers of %s: %w", subject, err)
	}
	return r, e.timed(&r, header.Get)
}

// apiError is an error of the server's API.
type apiError struct {
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// headersOf decodes the headers of a stored message from the server's API.
func headersOf(encoded string) (textproto.MIMEHeader, error) {
	block, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	_, fields, found := strings.Cut(string(block), "\r\n")
	if !found {
		return nil, errors.New("they have no end of line")
	}
	return textproto.NewReader(bufio.NewReader(strings.NewReader(fields))).ReadMIMEHeader()
}

// Delete implements [engine.Engine].
func (e *Engine) Delete(ctx context.Context, s engine.Stream, seq uint64) error {
	question := strconv.AppendUint([]byte(`{"no_erase":true,"seq":`), seq, 10)
	m, err := e.ask(ctx, e.addresses[s].remove, append(question, '}'))
	if err != nil {
		return err
	}
	var answer struct {
		Success bool      `json:"success"`
		Error   *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("jet: cannot parse the server's answer about %s: %w", s, err)
	}
	switch {
	case answer.Success:
		if s == engine.Jobs {
			e.back.remove(seq)
		}
		return nil
	case answer.Error == nil:
		return fmt.Errorf("jet: the server did not delete %d of %s and gave no reason", seq, s)
	case answer.Error.ErrCode == codeNoMessage, answer.Error.ErrCode == codeNoSequence,
		answer.Error.ErrCode == codeDeleteFailed && gone(answer.Error.Description):
		return nil
	}
	return fmt.Errorf("jet: the server did not delete %d of %s: %s (%d)", seq, s, answer.Error.Description, answer.Error.ErrCode)
}

// gone reports whether a deletion failed because the message does not exist.
func gone(description string) bool {
	return strings.Contains(description, "not found") || strings.Contains(description, "no message found") ||
		strings.Contains(description, "deleted message") || strings.Contains(description, "EOF")
}

// Scan implements [engine.Engine].
func (e *Engine) Scan(ctx context.Context, s engine.Stream, subject string, from uint64, limit int) ([]engine.Message, error) {
	var found []engine.Message
	from = max(from, 1)
	for len(found) < limit {
		batch, err := e.scanOnce(ctx, s, subject, from, min(limit-len(found), scanBatch))
		if err != nil {
			return nil, err
		}
		found = append(found, batch...)
		if len(batch) == 0 {
			break
		}
		from = batch[len(batch)-1].Seq + 1
	}
	// A replica other than the leader may lack the newest messages.
	for e.config.Replicas > 1 && len(found) < limit {
		m, err := e.fromLeader(ctx, s, e.nextQuestion(subject, from, 0))
		if errors.Is(err, engine.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		found = append(found, m)
		from = m.Seq + 1
	}
	return found, nil
}

// nextQuestion encodes a request for the messages of a subject, starting at a sequence
// number: for one, or for a batch.
func (e *Engine) nextQuestion(subject string, from uint64, batch int) []byte {
	q := append(append([]byte(`{"next_by_subj":"`), e.prefix+subject...), `","seq":`...)
	q = strconv.AppendUint(q, from, 10)
	if batch > 0 {
		q = strconv.AppendInt(append(q, `,"batch":`...), int64(batch), 10)
	}
	return append(q, '}')
}

// scanOnce requests one batch. It returns fewer than n messages if no more exist or if
// they are large.
func (e *Engine) scanOnce(ctx context.Context, s engine.Stream, subject string, from uint64, n int) ([]engine.Message, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if !e.connected.Load() {
		return nil, e.away()
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, apiPatience)
		defer cancel()
	}
	inbox := e.conn.NewInbox()
	sub, err := e.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, e.trouble("reading from "+e.addresses[s].name, err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // It fails when the connection is gone, and the subscription with it.
	if err := e.conn.PublishRequest(e.addresses[s].direct, inbox, e.nextQuestion(subject, from, n)); err != nil {
		return nil, e.trouble("reading from "+e.addresses[s].name, err)
	}
	found := make([]engine.Message, 0, n)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, e.trouble("reading from "+e.addresses[s].name, err)
		}
		switch status := first(m.Header, "Status"); status {
		case "":
			r, err := e.message(s, m)
			if err != nil {
				return nil, err
			}
			found = append(found, r)
		case "204", "404":
			return found, nil
		default:
			return nil, e.refused(s, status, first(m.Header, "Description"))
		}
	}
}
