package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// The headers of requests, in canonical form.
const (
	headerKey    = "Idempotency-Key"
	headerPrefer = "Prefer"
	headerMeta   = "Bullpen-Meta"
	headerParent = "Bullpen-Parent"
	headerType   = "Content-Type"
	headerTrace  = "Traceparent"
	headerState  = "Tracestate"
)

// formType is curl's default content type.
const formType = "application/x-www-form-urlencoded"

// first is h.Get for a name in canonical form.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// readHeaders reads an order's settings from headers.
func (o *order) readHeaders(h http.Header, f *faults) {
	o.readMeta(h, f)
	o.readParent(h, f)
}

// readParent reads the id of the task that waits.
func (o *order) readParent(h http.Header, f *faults) {
	if v, there := h[headerParent]; there {
		o.parent = v[0]
		if err := checkID(o.parent); err != nil {
			f.add(headerParent + " is " + quoted(o.parent) + ": give the id of the task that waits")
		}
	}
}

// readKey reads the key of a job.
func (o *order) readKey(h http.Header, f *faults) {
	v := first(h, headerKey)
	switch {
	case v == "":
		return
	case o.job.Key != "" && o.job.Key != v:
		f.add("key and " + headerKey + " differ: give one of them")
	}
	if err := checkText(v, longestKey); err != nil || !visible(strings.ReplaceAll(v, " ", "")) {
		f.add(headerKey + " is not at most " + strconv.Itoa(longestKey) + " visible characters of ASCII: use such ones, or the parameter key")
	}
	o.job.Key = v
}

// readMeta reads metadata from its headers.
func (o *order) readMeta(h http.Header, f *faults) {
	for _, of := range []struct{ header, key string }{{headerTrace, "traceparent"}, {headerState, "tracestate"}, {headerType, "content-type"}} {
		if v := first(h, of.header); v != "" && v != formType {
			o.addMeta(of.key, v)
		}
	}
	for name, values := range h {
		if attribute, ok := strings.CutPrefix(name, "Ce-"); ok && attribute != "" {
			o.addMeta(strings.ToLower(name), values[0]) // a CloudEvent in binary mode
		}
	}
	for _, v := range h[headerMeta] {
		for more := v != ""; more && !f.full(); {
			var part string
			part, v, more = strings.Cut(v, "&")
			name, value, found := strings.Cut(part, "=")
			name, okName := unescape(name)
			value, okValue := unescape(value)
			if !found || name == "" || !okName || !okValue || !visible(part) {
				f.add(headerMeta + " has the part " + quoted(part) + ": write key=value; write spaces and characters that are not ASCII as percent escapes, and %, & and = as %25, %26 and %3D")
				continue
			}
			o.addMeta(name, value)
		}
	}
}

// trace is the trace of a request; empty for none.
type trace struct{ parent, state string }

func readTrace(h http.Header) trace { return trace{first(h, headerTrace), first(h, headerState)} }

// addTrace adds an order, and its followers, to the trace of its request. Jobs that
// name a trace keep it.
func (o *order) addTrace(t trace) {
	t.put(&o.job)
}

// put adds jobs and their followers to a trace. Jobs that name a trace keep it.
func (t trace) put(jobs ...*job.Job) {
	if t.parent == "" {
		return
	}
	for _, j := range jobs {
		o := order{job: *j}
		if _, own := j.Meta["traceparent"]; !own {
			o.addMeta("traceparent", t.parent)
			if _, own := j.Meta["tracestate"]; !own && t.state != "" {
				o.addMeta("tracestate", t.state)
			}
		}
		j.Meta = o.job.Meta
		for i := range j.Then {
			t.put(&j.Then[i])
		}
	}
}

// visible reports whether s has only visible ASCII characters.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// addMeta adds a key, up to one more than allowed, which settle then reports.
func (o *order) addMeta(key, value string) {
	switch {
	case o.job.Meta == nil:
		o.job.Meta = make(map[string]string, 4)
	case len(o.job.Meta) > mostMeta:
		return
	}
	o.job.Meta[key] = value
}

// readPrefer reads the wait from the header Prefer (RFC 7240), unless the query has
// one. It ignores unknown preferences, as the RFC requires.
func (o *order) readPrefer(h http.Header) {
	if o.waits {
		return
	}
	for _, line := range h[headerPrefer] {
		for line != "" {
			var part string
			part, line, _ = strings.Cut(line, ",")
			part, _, _ = strings.Cut(part, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err == nil && !o.waits {
				o.wait, o.waits = time.Duration(n)*time.Second, true
			}
		}
	}
}
