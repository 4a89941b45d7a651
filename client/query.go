package client

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// query builds the parameters of a request. It leaves out zero values and keeps the
// order of the calls.
type query struct{ b strings.Builder }

func (q *query) text(name, value string) {
	if value == "" {
		return
	}
	if q.b.Len() > 0 {
		q.b.WriteByte('&')
	}
	q.b.WriteString(name)
	q.b.WriteByte('=')
	q.b.WriteString(url.QueryEscape(value))
}

// wait sets how long the request waits; 0 does not wait.
func (q *query) wait(d time.Duration) {
	if d != 0 {
		q.text("wait", d.String())
	}
}

func (q *query) time(name string, t time.Time) {
	if !t.IsZero() {
		q.text(name, t.UTC().Format(time.RFC3339Nano))
	}
}

func (q *query) number(name string, n int64) {
	if n != 0 {
		q.text(name, strconv.FormatInt(n, 10))
	}
}

func (q *query) String() string { return q.b.String() }

// jobQuery returns the parameters of a submission of j that waits for wait; 0 does not
// wait.
func jobQuery(j *job.Job, wait time.Duration) string {
	var q query
	j.Parameters(q.text)
	q.wait(wait)
	return q.String()
}

// words returns values as words separated by commas.
func words[T fmt.Stringer](all []T) string {
	text := make([]string, len(all))
	for i, v := range all {
		text[i] = v.String()
	}
	return strings.Join(text, ",")
}

// filterQuery returns the parameters of a list.
func filterQuery(f *job.Filter) string {
	var q query
	q.text("pool", f.Queue)
	q.text("task", f.Name)
	q.text("group", f.Group)
	q.text("schedule", f.Schedule)
	q.text("batch", f.Batch)
	q.text("state", words(f.States))
	q.text("reason", string(f.Reason))
	q.text("outcome", f.Outcome)
	q.text("cause", f.Cause)
	q.text("search", f.Search)
	q.time("since", f.Since)
	q.time("before", f.Before)
	if f.Newest {
		q.text("order", "newest")
	}
	q.number("limit", int64(f.Limit))
	q.text("after", f.After)
	return q.String()
}

// encodeMeta encodes metadata as the header Bullpen-Meta, except for what has a
// header of its own.
func encodeMeta(meta map[string]string, own bool) string {
	var q query
	inTrace := traced(meta)
	for key, value := range meta {
		if own && strings.HasPrefix(key, reservedMeta) || inTrace && traceHeaders[key] != "" {
			continue
		}
		if q.b.Len() > 0 {
			q.b.WriteByte('&')
		}
		q.b.WriteString(url.QueryEscape(key))
		q.b.WriteByte('=')
		q.b.WriteString(url.QueryEscape(value))
	}
	return q.String()
}

// reservedMeta is the prefix of Bullpen's own keys.
const reservedMeta = "bullpen."

// traceHeaders maps the metadata of a trace to HTTP headers. Sent as headers, the
// daemon's span for the request joins the trace, and the job's span is below it.
var traceHeaders = map[string]string{"traceparent": "Traceparent", "tracestate": "Tracestate"}

// traced reports whether metadata names a trace in the form of the W3C Trace Context.
// If not, it is sent as ordinary metadata.
func traced(meta map[string]string) bool {
	parent, state := meta["traceparent"], meta["tracestate"]
	return traceparent.MatchString(parent) && !strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' })
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
