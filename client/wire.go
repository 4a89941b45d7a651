package client

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// problem is the body of an error answer (RFC 9457).
type problem struct {
	Type     string             `json:"type"`
	Title    string             `json:"title"`
	Status   int                `json:"status"`
	Detail   string             `json:"detail"`
	Cause    string             `json:"cause"`
	Outcome  jsonvalue.Outcome  `json:"outcome"`
	Reason   job.Reason         `json:"reason"`
	Job      string             `json:"job"`
	Attempts int                `json:"attempts"`
	Failure  *jsonvalue.Failure `json:"failure"`
	Faults   []string           `json:"faults"`
}

// causePrefix is the prefix of the type of each problem of the API.
const causePrefix = "urn:bullpen:problem:"

// readProblem decodes an error answer: an *job.EndError if a job or task has ended,
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
	if p.Outcome != jsonvalue.Outcome(bullpen.OK) {
		e := &job.EndError{ID: p.Job, Outcome: bullpen.Outcome(p.Outcome), Reason: p.Reason, Attempts: p.Attempts, Task: p.Failure.TaskError(p.Job)}
		// The detail may begin with the words of the error itself.
		e.Message = strings.TrimPrefix(strings.TrimPrefix(p.Detail, (&job.EndError{ID: e.ID, Outcome: e.Outcome, Reason: e.Reason}).Error()), ": ")
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
		return min(max(jsonvalue.Duration(s), 0), longestRetryAfter)
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

// readMeta reads what the worker says of a result.
func readMeta(header http.Header) map[string]string {
	text := first(header, "Bullpen-Meta")
	if text == "" {
		return nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil // the result counts
	}
	meta := make(map[string]string, len(values))
	for name := range values {
		meta[name] = values.Get(name)
	}
	return meta
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
	return jsonvalue.Duration(s)
}

func numberOf(header http.Header, key string) int64 {
	n, err := strconv.ParseInt(first(header, key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
