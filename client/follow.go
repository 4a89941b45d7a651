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
)

// EventKind says what an [Event] tells.
type EventKind string

// The kinds of events.
const (
	// StateChanged: the job is in another state.
	StateChanged EventKind = "state"
	// Progressed: the handler told how far it is.
	Progressed EventKind = "progress"
	// Logged: the handler logged or printed a line.
	Logged EventKind = "log"
	// Ended: the job has ended. It is the last event.
	Ended EventKind = "end"
	// Missed: events are missing here, which the daemon kept no more.
	Missed EventKind = "missed"
)

// Event is one thing that happens to a job.
type Event struct {
	// ID says where in the story of the job the event stands; [Client.Follow] goes
	// on behind it. It is empty of a Missed event.
	ID   string
	Kind EventKind
	// State and Attempt are of StateChanged.
	State   State
	Attempt int
	// Fraction and Note are of Progressed.
	Fraction float64
	Note     string
	// Line is of Logged.
	Line Line
	// Job is of Ended.
	Job *Info
	// Text says what is missing, of Missed.
	Text string
}

// Follow yields what happens to a job, from its beginning as far as that is kept,
// or behind the event with the id after, until the job has ended. Broken
// connections are made again, and each event is yielded once. An error ends it:
// the job is not known, or the daemon does not answer after Config.Retries tries.
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

// follower is one run of Follow.
type follower struct {
	client *Client
	id     string
	last   string // the id of the last event that was yielded
	seen   int    // events that were yielded
	state  Event  // the last that told a state
	said   Event  // the last that told progress
	yield  func(Event, error) bool
}

// silence is how long a stream of events may say nothing; the daemon says
// something every 15 s.
const silence = time.Minute

var errSilent = errors.New("the daemon has said nothing for " + silence.String())

// once follows until the connection breaks. end says that there is no more to
// yield.
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
	if response.StatusCode == http.StatusNoContent { // the end was seen
		response.Body.Close()
		return true, nil
	}
	if err := streams(response, f.client.config.MaxResult); err != nil {
		return false, err
	}
	defer response.Body.Close()
	resumed, known := parsePlace(f.last)
	in := newFrames(response.Body, f.client.config.MaxResult)
	for {
		next, err := in.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a story ends with its end
		}
		if errors.Is(err, ErrTooLarge) {
			return false, err
		}
		if err != nil {
			return false, broken(ctx, bounded, sent, err)
		}
		watch.Reset(silence)
		at, ok := parsePlace(next.id)
		again := known && ok && !at.behind(resumed) // it may have been yielded before the connection broke
		if end, err := f.tell(next, again); end || err != nil {
			return end, err
		}
	}
}

// tell yields one event; end says that it was the last one or that the consumer has
// left. An event that may have come before is left out if it says nothing new: the
// daemon tells the state of things anew to who comes again.
func (f *follower) tell(next frame, again bool) (end bool, err error) {
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

// streams checks that an answer is a stream of events, or reads why it is not.
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

// readEvent reads one event of a job. One that this package does not know is none.
func readEvent(f frame) (e Event, ok bool, err error) {
	if f.comment {
		// "gap" begins the comment that says so; the others keep the stream alive.
		text := string(f.data)
		return Event{Kind: Missed, Text: text}, strings.HasPrefix(text, "gap"), nil
	}
	e = Event{ID: f.id, Kind: EventKind(f.kind)}
	switch e.Kind {
	case StateChanged:
		var v struct {
			State   State `json:"state"`
			Attempt int   `json:"attempt"`
		}
		err = json.Unmarshal(f.data, &v)
		e.State, e.Attempt = v.State, v.Attempt
	case Progressed:
		var v wireProgress
		err = json.Unmarshal(f.data, &v)
		e.Fraction, e.Note = v.Fraction, v.Note
	case Logged:
		var v wireLine
		err = json.Unmarshal(f.data, &v)
		e.Line = v.line()
	case Ended:
		e.Job = new(Info)
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

// place is where an event stands: "<attempt>.<n>".
type place struct{ attempt, n uint64 }

func parsePlace(id string) (place, bool) {
	a, b, found := strings.Cut(id, ".")
	attempt, err := strconv.ParseUint(a, 10, 64)
	if !found || err != nil {
		return place{}, false
	}
	n, err := strconv.ParseUint(b, 10, 64)
	return place{attempt, n}, err == nil
}

func (p place) behind(o place) bool {
	return p.attempt > o.attempt || p.attempt == o.attempt && p.n > o.n
}
