package client

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// seconds is a duration in the API's JSON.
type seconds float64

func (s seconds) duration() time.Duration {
	ns := float64(s) * float64(time.Second)
	switch {
	case math.IsNaN(ns):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	default:
		return time.Duration(math.Round(ns))
	}
}

// outcomeWord is an outcome in the API's JSON. An unknown word decodes as Lost,
// because the true outcome is not known.
type outcomeWord bullpen.Outcome

func (o *outcomeWord) UnmarshalJSON(text []byte) error {
	var word string
	if err := json.Unmarshal(text, &word); err != nil {
		return err
	}
	if word == "" {
		*o = outcomeWord(bullpen.OK)
		return nil
	}
	*o = outcomeWord(parseOutcome(word))
	return nil
}

func parseOutcome(word string) bullpen.Outcome {
	o, err := bullpen.ParseOutcome(word)
	if err != nil {
		return bullpen.Lost
	}
	return o
}

// failure is a bullpen.TaskError in the API's JSON.
type failure struct {
	Outcome   outcomeWord `json:"outcome"`
	Task      string      `json:"task"`
	Type      string      `json:"type"`
	Message   string      `json:"message"`
	Stack     string      `json:"stack"`
	Retryable bool        `json:"retryable"`
	Worker    string      `json:"worker"`
	ExitCode  *int        `json:"exit_code"`
	Signal    string      `json:"signal"`
	Detail    string      `json:"detail"`
}

func (f *failure) taskError(id string) *bullpen.TaskError {
	e := &bullpen.TaskError{
		Outcome: bullpen.Outcome(f.Outcome), Task: f.Task, ID: id, Type: f.Type, Message: f.Message, Stack: f.Stack,
		Retryable: f.Retryable, Worker: f.Worker, ExitCode: -1, Signal: f.Signal, Detail: f.Detail,
	}
	if f.ExitCode != nil {
		e.ExitCode = *f.ExitCode
	}
	return e
}

// wireLine is a bullpen.LogLine in the API's JSON.
type wireLine struct {
	Time   time.Time `json:"time"`
	Level  int       `json:"level"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
}

func (l wireLine) line() bullpen.LogLine { return bullpen.LogLine(l) }

// problem is the body of an error answer (RFC 9457).
type problem struct {
	Type     string      `json:"type"`
	Title    string      `json:"title"`
	Status   int         `json:"status"`
	Detail   string      `json:"detail"`
	Cause    string      `json:"cause"`
	Outcome  outcomeWord `json:"outcome"`
	Reason   Reason      `json:"reason"`
	Job      string      `json:"job"`
	Attempts int         `json:"attempts"`
	Failure  *failure    `json:"failure"`
	Faults   []string    `json:"faults"`
}

// causePrefix is the prefix of the type of each problem of the API.
const causePrefix = "urn:bullpen:problem:"

// readProblem decodes an error answer: an *EndError if a job or task has ended,
// otherwise an *Error.
func readProblem(status int, header http.Header, body []byte) error {
	var p problem
	err := json.Unmarshal(body, &p)
	if p.Cause == "" {
		p.Cause, _ = strings.CutPrefix(p.Type, causePrefix)
		if p.Cause == p.Type {
			p.Cause = ""
		}
	}
	if err != nil || p.Cause == "" {
		return foreignAnswer(status, header, body)
	}
	if p.Outcome != outcomeWord(bullpen.OK) {
		e := &EndError{ID: p.Job, Outcome: bullpen.Outcome(p.Outcome), Reason: p.Reason, Attempts: p.Attempts, Message: p.Detail}
		if p.Failure != nil {
			e.Task = p.Failure.taskError(p.Job)
		}
		return e
	}
	detail := p.Detail
	if detail == "" {
		detail = p.Title
	}
	return &Error{Status: status, Cause: p.Cause, Detail: detail, Faults: p.Faults, Job: p.Job, RetryAfter: retryAfter(header)}
}

// foreignAnswer returns the error for an answer that is not a problem of the API: it
// comes from a proxy before the daemon, or another program listens there.
func foreignAnswer(status int, header http.Header, body []byte) *Error {
	e := &Error{Status: status, Cause: causeAnswer, RetryAfter: retryAfter(header)}
	switch status {
	case http.StatusUnauthorized:
		e.Cause = "unauthorized"
	case http.StatusForbidden:
		e.Cause = "forbidden"
	case http.StatusRequestEntityTooLarge:
		e.Cause = causeTooLarge
	case http.StatusTooManyRequests:
		e.Cause = "rate"
	}
	const most = 200
	text := strings.ToValidUTF8(string(body[:min(len(body), most)]), "?")
	if e.Detail = strings.Join(strings.Fields(text), " "); e.Detail == "" {
		e.Detail = http.StatusText(status)
	}
	if e.Cause == causeAnswer {
		e.Detail = "it said " + strconv.Quote(e.Detail) + "; look at the URL, and at what stands between"
	}
	return e
}

// longestRetryAfter bounds the delay that an answer may ask for.
const longestRetryAfter = time.Hour

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if text == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return min(max(seconds(s).duration(), 0), longestRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), longestRetryAfter)
	}
	return 0
}

// readStats reads a task's times from the headers of its result.
func readStats(header http.Header) bullpen.Stats {
	return bullpen.Stats{
		Waited: secondsOf(header, "Bullpen-Waited"), Ran: secondsOf(header, "Bullpen-Ran"),
		Worker: first(header, "Bullpen-Worker"), PeakMemory: numberOf(header, "Bullpen-Peak-Memory"),
	}
}

// first is header.Get for a key that is already canonical.
func first(header http.Header, key string) string {
	if all := header[key]; len(all) > 0 {
		return all[0]
	}
	return ""
}

// Ignore malformed headers: the result counts.

func secondsOf(header http.Header, key string) time.Duration {
	s, err := strconv.ParseFloat(first(header, key), 64)
	if err != nil {
		return 0
	}
	return seconds(s).duration()
}

func numberOf(header http.Header, key string) int64 {
	n, err := strconv.ParseInt(first(header, key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
