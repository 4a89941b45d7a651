package process

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// request returns the request for c, or why its name cannot be part of a path.
func (d *httpDriver) request(ctx context.Context, c *call) (*http.Request, error) {
	t := &c.task
	path := cmp.Or(d.w.pool.config.HTTP.Path, "/")
	if strings.Contains(path, "{name}") {
		if t.Name == "." || t.Name == ".." {
			return nil, fmt.Errorf("the name %q leads to another path: use another one", t.Name)
		}
		path = strings.ReplaceAll(path, "{name}", url.PathEscape(t.Name))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, bytes.NewReader(t.Payload))
	if err != nil {
		return nil, err
	}
	h := r.Header
	set := func(name, value string) {
		if value != "" && !strings.ContainsAny(value, "\r\n\x00") {
			h[name] = []string{value}
		}
	}
	set("Bullpen-Task-Id", t.ID)
	set("Bullpen-Task-Name", t.Name)
	if c.timeout > 0 {
		set("Bullpen-Deadline-Ms", strconv.FormatInt(time.Now().Add(c.timeout).UnixMilli(), 10))
	}
	h["User-Agent"] = nil
	h["Content-Type"] = defaultType
	for key, value := range t.Meta {
		if name := headerOf(key); name != "" {
			set(name, value)
		}
	}
	return r, nil
}

var defaultType = []string{"application/octet-stream"}

// ownHeaders are the entries of Meta that are headers of the same name.
var ownHeaders = []string{"content-type", "traceparent", "tracestate"}

// headerOf returns the name of the header for an entry of Meta, or empty text if the key
// cannot be part of one.
func headerOf(key string) string {
	for _, b := range []byte(key) {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-_.", b) >= 0) {
			return ""
		}
	}
	if lower := strings.ToLower(key); slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "ce-") {
		return http.CanonicalHeaderKey(lower)
	}
	return http.CanonicalHeaderKey("Bullpen-Meta-" + key)
}

// metaOf returns the content type and the attributes of a CloudEvent in a response.
func metaOf(h http.Header) (meta map[string]string) {
	for name, values := range h {
		if name != "Content-Type" && !strings.HasPrefix(name, "Ce-") || len(values) == 0 {
			continue
		}
		if meta == nil {
			meta = map[string]string{}
		}
		meta[strings.ToLower(name)] = values[0]
	}
	return meta
}

// mostErrorText is how much of the body of an error becomes its message.
const mostErrorText = 4 << 10

// errorText returns the message of a response that is an error.
func errorText(status int, h http.Header, body []byte) string {
	text := http.StatusText(status)
	if where := h.Get("Location"); where != "" {
		text += ": " + where
	}
	if body = bytes.TrimSpace(body[:min(len(body), mostErrorText)]); len(body) > 0 {
		text += ": " + strings.ToValidUTF8(string(body), "\uFFFD")
	}
	return text
}

// retryAfter returns how long a worker wants no task: seconds or a date, RFC 9110 section
// 10.2.3.
func retryAfter(value string, now time.Time) time.Duration {
	after := defaultRetryAfter
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		after = date.Sub(now)
	}
	return min(max(after, time.Millisecond), mostRetryAfter)
}

// read returns what a response means.
func (d *httpDriver) read(c *call, response *http.Response, began time.Time) (*wire.Message, error) {
	defer response.Body.Close()
	m := &wire.Message{Kind: protocol.Result}
	if o, ok := c.task.Observer.(bullpen.ChunkObserver); ok && response.StatusCode/100 == 2 && response.ContentLength < 0 {
		m.Meta = metaOf(response.Header)
		size, err := wire.CopyChunks(o.Chunk, response.Body, c.output)
		if size > c.output {
			m.Size = size
		}
		return m, err
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(response.Body, int64(c.output)+1)); err != nil {
		return nil, err
	}
	switch status := response.StatusCode; {
	case status/100 == 2 && body.Len() > c.output:
		m.Size = max(body.Len(), int(response.ContentLength))
	case status/100 == 2:
		m.Body, m.Meta = body.Bytes(), metaOf(response.Header)
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		m.Kind = protocol.Returned
		d.pause(retryAfter(response.Header.Get("Retry-After"), time.Now()))
	default:
		f := failure{Type: "HTTP " + strconv.Itoa(status), Message: errorText(status, response.Header, body.Bytes())}
		m = failed(bullpen.Failed, f, c.timeout, time.Since(began))
		if status/100 == 4 {
			m.Flags = protocol.Final
		}
	}
	return m, nil
}
