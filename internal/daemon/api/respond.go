package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// The headers of answers that carry a result, in canonical form.
const (
	headerJob      = "Bullpen-Job"
	headerTask     = "Bullpen-Task"
	headerOutcome  = "Bullpen-Outcome"
	headerAttempts = "Bullpen-Attempts"
	headerWaited   = "Bullpen-Waited"
	headerRan      = "Bullpen-Ran"
	headerWorker   = "Bullpen-Worker"
	headerPeak     = "Bullpen-Peak-Memory"
)

const (
	jsonType   = "application/json"
	bytesType  = "application/octet-stream"
	linesType  = "application/x-ndjson"
	eventsType = "text/event-stream"
)

// Header values that never change, shared so that an answer allocates no slices for
// them. They must not be modified.
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
	ok      = []string{"ok"}
	octets  = []string{bytesType}
)

// plainHeaders sets the headers of every answer.
func plainHeaders(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
}

// writeResult answers with the result of a task that ended well. Every job that is
// waited for passes through here, so it saves allocations: all numbers share one
// string, and all headers one slice.
func writeResult(w http.ResponseWriter, header, id string, attempts int, r *bullpen.Result) {
	h := w.Header()
	values := make([]string, 0, 9)
	set := func(name, value string) {
		values = append(values, value)
		n := len(values)
		h[name] = values[n-1 : n : n]
	}
	var room [96]byte
	b := appendSeconds(room[:0], r.Stats.Waited)
	waited := len(b)
	b = appendSeconds(b, r.Stats.Ran)
	ran := len(b)
	b = strconv.AppendInt(b, int64(len(r.Payload)), 10)
	length := len(b)
	b = strconv.AppendInt(b, r.Stats.PeakMemory, 10)
	peak := len(b)
	b = strconv.AppendInt(b, int64(attempts), 10)
	all := string(b)

	set(header, id)
	set(headerWaited, all[:waited])
	set(headerRan, all[waited:ran])
	set("Content-Length", all[ran:length])
	if r.Stats.PeakMemory > 0 {
		set(headerPeak, all[length:peak])
	}
	if attempts > 0 {
		set(headerAttempts, all[peak:])
	}
	if r.Stats.Worker != "" {
		set(headerWorker, r.Stats.Worker)
	}
	if len(r.Meta) > 0 {
		meta := url.Values{}
		for name, value := range r.Meta {
			meta.Set(name, value)
		}
		set(headerMeta, strings.ReplaceAll(meta.Encode(), "+", "%20"))
	}
	h[headerOutcome] = ok
	h["Content-Type"] = octets
	plainHeaders(h)
	w.Write(r.Payload) //nolint:errcheck // the client may be gone
}

// appendSeconds appends a duration in seconds, with nanosecond precision.
func appendSeconds(b []byte, d time.Duration) []byte {
	d = max(d, 0)
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	rest := int64(d % time.Second)
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(time.Second / 10); rest > 0; unit /= 10 {
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}

// writeJSON answers with v as JSON.
func writeJSON(w http.ResponseWriter, status int, v any) *problem.Problem {
	body, err := encode(v)
	if err != nil {
		return problem.New(problem.Internal, "The answer cannot be encoded: "+err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	plainHeaders(h)
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client may be gone
	return nil
}

// encode returns v as JSON with a line feed, without escaping HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// noContent answers 204.
func noContent(w http.ResponseWriter) {
	plainHeaders(w.Header())
	w.WriteHeader(http.StatusNoContent)
}

// stamp formats a time; the zero time gives an empty string.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
