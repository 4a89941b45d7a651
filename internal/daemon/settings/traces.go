package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/units"
)

// Traces configures the export of spans.
type Traces struct {
	// Endpoint is the URL of an OpenTelemetry collector; empty for none.
	Endpoint string
	// Sample is the fraction of the traces beginning here that are exported.
	Sample float64
	// Headers are sent with each request; they include those of HeadersFile.
	Headers     Headers
	HeadersFile string
	// Timeout bounds each request.
	Timeout time.Duration
	// Service is the name of this service in traces.
	Service string
}

// Headers usually hold secrets: they are not printed.
type Headers map[string]string

// String returns the names of h, without values.
func (h Headers) String() string {
	return "[" + strings.Join(slices.Sorted(maps.Keys(h)), " ") + "]"
}

// GoString is like String.
func (h Headers) GoString() string { return h.String() }

// LogValue is like String.
func (h Headers) LogValue() slog.Value { return slog.StringValue(h.String()) }

// Check returns all faults of t. It shows neither values of headers nor the endpoint,
// which may have a secret in it by mistake.
func (t Traces) Check() error {
	var errs []error
	if t.Endpoint != "" {
		errs = append(errs, checkCollector(t.Endpoint))
	}
	if !(t.Sample >= 0 && t.Sample <= 1) {
		errs = append(errs, fmt.Errorf("traces.sample: it is %v: %s", t.Sample, shareUse))
	}
	if t.Timeout < 0 {
		errs = append(errs, fmt.Errorf("traces.timeout: it is %v: %s", t.Timeout, units.DurationUse))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		errs = append(errs, checkHeader(name, t.Headers[name]))
	}
	return errors.Join(errs...)
}

const shareUse = "use a number from 0 to 1"

// checkCollector returns what is wrong with the URL of a collector.
func checkCollector(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return errors.New("it is not the URL of a collector: use a URL such as http://localhost:4318")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return errors.New("it has a user, a query or a fragment: remove it, and put credentials into traces.headers")
	}
	return nil
}

// ownHeaders are set by the daemon itself.
var ownHeaders = []string{"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "Host"}

// checkHeader returns what is wrong with a header, without its value.
func checkHeader(name, value string) error {
	switch {
	case !isHeader(name):
		return errors.New("it has a name that is not valid for a header: use a name such as Authorization")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("the value of %s has characters that are not visible ASCII: remove them", name)
	case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
		return fmt.Errorf("%s is set by the daemon itself: leave it out", name)
	}
	return nil
}

func isHeader(name string) bool {
	return name != "" && len(name) <= 256 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// collector is the URL of a collector.
var collector = kind[string]{name: "URL", use: "use the URL of a collector, such as http://localhost:4318", parse: func(v value) (string, error) {
	s, err := text.parse(v)
	if err == nil {
		err = checkCollector(s)
	}
	return s, err
}}

// headers is a mapping of names to values; in the environment, "name=value" separated
// by commas.
var headers = kind[Headers]{name: "mapping", use: "use names with values, such as {Authorization: Bearer abc}", parse: func(v value) (Headers, error) {
	all := Headers{}
	add := func(name, text string) error {
		if _, there := all[http.CanonicalHeaderKey(name)]; there {
			return fmt.Errorf("it has %s twice: use it once", quote(name))
		}
		all[http.CanonicalHeaderKey(name)] = text
		return checkHeader(name, text)
	}
	switch {
	case v.shape == isMapping:
		for _, p := range v.pairs {
			if p.value.shape != isScalar {
				return nil, fmt.Errorf("%s has %s: use a text", quote(p.name), shapeWords[p.value.shape])
			}
			if err := add(p.name, p.value.text); err != nil {
				return nil, err
			}
		}
		return all, nil
	case v.shape == isScalar && v.flat:
		for _, part := range splitList(v.text) {
			name, text, found := strings.Cut(part, "=")
			if !found {
				return nil, errors.New("it has a part without =: use name=value, separated by commas")
			}
			if err := add(strings.TrimSpace(name), strings.TrimSpace(text)); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, errUse
}}

func tracesKeys() []key[Settings] {
	return []key[Settings]{
		hidden(row("traces.endpoint", collector, "(none)", "OpenTelemetry collector that gets the traces of jobs, by OTLP over HTTP; `/v1/traces` is added. Without it no traces are sent",
			func(s *Settings) *string { return &s.Traces.Endpoint })),
		row("traces.sample", fraction(0, 1, shareUse), "1", "fraction of the traces to send, from 0 to 1; the traceparent of a caller overrides it", func(s *Settings) *float64 { return &s.Traces.Sample }),
		hidden(row("traces.headers", headers, "(none)", "headers for the collector, such as `{Authorization: Bearer abc}`; in the environment `name=value`, separated by commas",
			func(s *Settings) *Headers { return &s.Traces.Headers })),
		hidden(row("traces.headers_file", path, "(none)", "file with more headers, for secrets; each line is `Name: value`",
			func(s *Settings) *string { return &s.Traces.HeadersFile })),
		row("traces.timeout", span(100*time.Millisecond), "10s", "maximum time of a request to the collector", func(s *Settings) *time.Duration { return &s.Traces.Timeout }),
		row("traces.service", text, "bullpen", "name of this service in traces", func(s *Settings) *string { return &s.Traces.Service }),
	}
}

const mostHeaders = 64 << 10

// othersRead are the permissions that a file of secrets must not have, as with
// http.tokens. Its group may read it, which is how secrets are mounted.
const othersRead = 0o037

// completeTraces adds the headers of the file.
func (l *loader) completeTraces() {
	t := &l.settings.Traces
	const at = "traces.headers_file"
	if t.HeadersFile == "" || !l.checkFile(at, t.HeadersFile) {
		return
	}
	content, err := readFile(t.HeadersFile)
	if err != nil || len(content) > mostHeaders {
		l.fault(at, "the file cannot be read, or is larger than %s", bytesText(mostHeaders))
		return
	}
	if info, err := os.Stat(t.HeadersFile); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&othersRead != 0 {
		l.fault(at, "the file can be read or written by others than its owner and group (mode %04o), and has secrets: run chmod 600 %s", info.Mode().Perm(), t.HeadersFile)
		return
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !found {
			l.fault(at, "line %d of the file has no colon: write one header per line, as Name: value", number)
			continue
		}
		if err := checkHeader(name, value); err != nil {
			l.fault(at, "line %d of the file: %v", number, err)
			continue
		}
		if _, there := t.Headers[name]; there {
			l.fault(at, "line %d of the file: %s is set twice: set it once", number, name)
			continue
		}
		if t.Headers == nil {
			t.Headers = Headers{}
		}
		t.Headers[name] = value
	}
}
