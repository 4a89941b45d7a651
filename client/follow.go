package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	// StateChanged: the job entered another state.
	StateChanged EventKind = "state"
	// Progressed: the handler reported progress.
	Progressed EventKind = "progress"
	// Logged: the handler logged or printed a line.
	Logged EventKind = "log"
	// Ended: the job has ended. This is the last event.
	Ended EventKind = "end"
	// Missed: events are missing here, because the daemon no longer kept them.
	Missed EventKind = "missed"
)

// Event is an event of a job.
type Event struct {
	// ID is the position of the event; pass it to [Client.Follow] to continue after
	// the event. It is empty for Missed.
	ID   string
	Kind EventKind
	// State and Attempt are set for StateChanged.
	State   job.State
	Attempt int
	// Fraction and Note are set for Progressed.
	Fraction float64
	Note     string
	// Line is set for Logged.
	Line bullpen.LogLine
	// Job is set for Ended.
	Job *job.Info
	// Text is set for Missed, and describes what is missing.
	Text string
}

// Follow yields the events of a job until the job has ended. It begins after the
// event with the id after, or, if after is empty, with the oldest event that is kept.
// Follow reconnects after a broken connection, and yields each event once. It stops
// after an error: the job is unknown, or the daemon did not answer after
// Config.Retries retries.
func (c *Client) Follow(ctx context.Context, id, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := follower{client: c, id: id, last: after, yield: yield}
		for failures := 0; ; failures++ {
			before := f.seen
			end, err := f.once(ctx)
			if end {
				return
			}
			if f.seen > before {
				failures = 0
			}
			var e *Error
			if !errors.As(err, &e) || failures >= c.config.Retries || !e.repeatable(true) || c.pause(ctx, nil, failures, e) != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// follower is the state of one call of Follow.
type follower struct {
	client *Client
	id     string
	last   string // id of the last event yielded
	seen   int    // number of events yielded
	state  Event  // last StateChanged
	said   Event  // last Progressed
	yield  func(Event, error) bool
}

// silence is how long a stream of events may be silent before it counts as broken;
// the daemon sends something every 15 s.
const silence = time.Minute

var errSilent = errors.New("the daemon has sent nothing for " + silence.String())

// once follows the job until the connection breaks; end reports that nothing is left
// to yield.
func (f *follower) once(ctx context.Context) (end bool, err error) {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	r := call{method: http.MethodGet, path: "/v1/jobs/" + escape(f.id) + "/events", header: f.client.header()}
	r.header["Accept"] = []string{eventStream}
	if f.last != "" {
		r.header["Last-Event-Id"] = []string{f.last}
	}
	sent := &sending{}
	response, err := f.client.send(bounded, r, sent)
	if err != nil {
		return false, broken(ctx, bounded, sent, err)
	}
	if response.StatusCode == http.StatusNoContent { // the caller already has the last event
		response.Body.Close()
		return true, nil
	}
	if err := streams(response, f.client.config.MaxResult); err != nil {
		return false, err
	}
	defer response.Body.Close()
	resumed, known := parsePosition(f.last)
	in := newFrames(response.Body, f.client.config.MaxResult)
	for {
		next, err := in.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a complete stream ends with an Ended event
		}
		if errors.Is(err, ErrTooLarge) {
			return false, err
		}
		if err != nil {
			return false, broken(ctx, bounded, sent, err)
		}
		watch.Reset(silence)
		at, ok := parsePosition(next.id)
		again := known && ok && !at.behind(resumed) // it may have been yielded before the connection broke
		if end, err := f.yieldEvent(next, again); end || err != nil {
			return end, err
		}
	}
}

// yieldEvent yields one event; end reports that it was the last one, or that the consumer
// left the loop. After a reconnection the daemon repeats the current state, so yieldEvent
// skips an event that may have been yielded before and brings nothing new.
func (f *follower) yieldEvent(next frame, again bool) (end bool, err error) {
	event, ok, err := readEvent(next)
	if err != nil || !ok {
		return false, err
	}
	switch event.Kind {
	case StateChanged:
		if again && event.State == f.state.State && event.Attempt == f.state.Attempt {
			return false, nil
		}
		f.state = event
	case Progressed:
		if again && event.Fraction == f.said.Fraction && event.Note == f.said.Note {
			return false, nil
		}
		f.said = event
	case Logged:
		if again {
			return false, nil
		}
	case Ended, Missed:
	}
	if event.ID != "" {
		f.last = event.ID
	}
	f.seen++
	return !f.yield(event, nil) || event.Kind == Ended, nil
}

const eventStream = "text/event-stream"

// streams returns nil if the answer is a stream of events, and its error otherwise.
func streams(response *http.Response, most int64) error {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if response.StatusCode == http.StatusOK && strings.TrimSpace(kind) == eventStream {
		return nil
	}
	body, err := readBody(response, most)
	if err != nil {
		return &Error{Status: response.StatusCode, Cause: causeAnswer, Err: err}
	}
	return readProblem(response.StatusCode, response.Header, body)
}

// readEvent decodes one event of a job; ok is false for a kind that this package does
// not know.
func readEvent(f frame) (e Event, ok bool, err error) {
	if f.comment {
		// A comment that begins with "gap" reports missing events; other comments
		// keep the stream alive.
		text := string(f.data)
		return Event{Kind: Missed, Text: text}, strings.HasPrefix(text, "gap"), nil
	}
	e = Event{ID: f.id, Kind: EventKind(f.kind)}
	switch e.Kind {
	case StateChanged:
		var v struct {
			State   job.State `json:"state"`
			Attempt int       `json:"attempt"`
		}
		err = json.Unmarshal(f.data, &v)
		e.State, e.Attempt = v.State, v.Attempt
	case Progressed:
		var v wireProgress
		err = json.Unmarshal(f.data, &v)
		e.Fraction, e.Note = v.Fraction, v.Note
	case Logged:
		var v jsonvalue.Line
		err = json.Unmarshal(f.data, &v)
		e.Line = v.Line()
	case Ended:
		e.Job = new(job.Info)
		err = json.Unmarshal(f.data, e.Job)
	case Missed:
		fallthrough
	default:
		return Event{}, false, nil
	}
	if err != nil {
		return Event{}, false, &Error{Cause: causeAnswer, Detail: fmt.Sprintf("an event %q cannot be read", f.kind), Err: err}
	}
	return e, true, nil
}

type wireProgress struct {
	Fraction float64 `json:"fraction"`
	Note     string  `json:"note"`
}

// position is the position of an event: "<attempt>.<n>".
type position struct{ attempt, n uint64 }

func parsePosition(id string) (position, bool) {
	a, b, found := strings.Cut(id, ".")
	attempt, err := strconv.ParseUint(a, 10, 64)
	if !found || err != nil {
		return position{}, false
	}
	n, err := strconv.ParseUint(b, 10, 64)
	return position{attempt, n}, err == nil
}

func (p position) behind(o position) bool {
	return p.attempt > o.attempt || p.attempt == o.attempt && p.n > o.n
}
