package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// Limits of the content of an ERROR, in bytes.
const (
	maxMessage = 64 << 10
	maxStack   = 16 << 10
)

// ending is the way in which a handler ended.
type ending struct {
	returned             bool // the handler returned, with or without an error
	payload              []byte
	code                 uint16 // an outcome of the protocol; 0 means a result
	final                bool
	asked                bool // the error is that of an ended context
	kind, message, stack string
}

// run runs the handler of j. It calls done once, however the handler ends: by returning, by
// a panic, or by runtime.Goexit, which ends this goroutine after done.
func run(j *job, done func(j *job)) {
	defer func() {
		if !j.end.returned {
			j.end.broke(recover())
		}
		done(j)
	}()
	payload, err := j.handler(j.ctx, j.task)
	if err != nil {
		j.end.failed(err) // may panic, because it calls methods of err
	} else {
		j.end.payload = payload
	}
	j.end.returned = true
}

// failText is the type name of bullpen.Fail's error, which tells people nothing.
var failText = fmt.Sprintf("%T", bullpen.Fail("", false))

// kindOf returns the type name of err, or "" if the name would tell people nothing.
func kindOf(err error) string {
	kind := fmt.Sprintf("%T", err)
	if kind == failText || strings.HasPrefix(kind, "*errors.") || strings.HasPrefix(kind, "*fmt.") {
		return ""
	}
	return kind
}

// failed records the error that a handler returned.
func (e *ending) failed(err error) {
	e.asked = errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	e.message = err.Error()
	e.kind = kindOf(err)
	e.final = !bullpen.Retryable(err)
	e.code = protocol.OutcomeFailed
	if errors.Is(err, bullpen.ErrOutput) {
		e.code = protocol.OutcomeOutput
	}
}

// broke records a panic, or a runtime.Goexit if value is nil.
func (e *ending) broke(value any) {
	*e = ending{code: protocol.OutcomePanic, stack: string(debug.Stack())}
	if value == nil {
		e.kind = "runtime.Goexit"
		e.message = "the handler ended its goroutine"
		return
	}
	e.kind = fmt.Sprintf("%T", value)
	e.message = fmt.Sprint(value)
}

// answer sends the outcome of j. why is the state of its context when the handler ended. It
// returns how many bytes wait to be written.
func (s *session) answer(j *job, why taskState, ran time.Duration) int {
	e := &j.end
	h := protocol.Header{Kind: protocol.Result, ID: j.ctx.id}
	h.Aux, _ = protocol.Micros(ran)
	if e.code == 0 {
		n := uint64(len(e.payload)) + j.ctx.sent
		switch {
		case j.output != 0 && n > j.output:
			e.code, e.message = protocol.OutcomeOutput, fmt.Sprintf("the result has %d bytes, more than %d", n, j.output)
		case uint64(len(e.payload)) > uint64(s.maxFrame):
			e.code, e.message = protocol.OutcomeOutput, fmt.Sprintf("the result has %d bytes, but the host accepts frames of at most %d", n, s.maxFrame)
		default:
			return s.answers.addResult(h, e.payload)
		}
	}
	h.Kind, h.Code = protocol.Error, e.code
	if e.asked && (why == timedOut || why == canceled) {
		h.Code = uint16(why)
	}
	if e.final {
		h.Flags |= protocol.Final
	}
	return s.answers.add(h, e.body(s.maxFrame))
}

// body encodes the pairs of an ERROR within bound bytes.
func (e *ending) body(bound int) []byte {
	all := [...]struct {
		key, value string
		most       int
	}{{"type", e.kind, 1 << 10}, {"message", e.message, maxMessage}, {"stack", e.stack, maxStack}}
	count := 0
	for i := range all {
		// A host with a small frame limit gets a part of each.
		all[i].value = cut(all[i].value, min(all[i].most, bound/4))
		if all[i].value != "" {
			count++
		}
	}
	b := protocol.BeginPairs(nil, count)
	for _, p := range all {
		if p.value != "" {
			b = protocol.AppendPair(b, p.key, p.value)
		}
	}
	return b
}

// cut shortens s to at most most bytes of UTF-8.
func cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
