// Package tracetest is an OpenTelemetry collector for tests. It decodes requests with
// the published OTLP types, not with the daemon's own encoder.
package tracetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one received span.
type Span struct {
	Trace, ID, Parent string // in hexadecimal; Parent is empty for none
	Name, Kind, State string
	Start, End        time.Time
	Failed            bool
	Message           string // error message of a failed one
	Attributes        map[string]any
	Resource          map[string]any
}

// Collector receives spans. All methods are safe for concurrent use.
type Collector struct {
	server *httptest.Server

	mu       sync.Mutex
	spans    []Span        // guarded by mu
	faults   []error       // guarded by mu
	headers  http.Header   // of the last request; guarded by mu
	requests int           // guarded by mu
	news     chan struct{} // closed and replaced when something arrives; guarded by mu
	answer   Answer        // guarded by mu
}

// Answer answers a request instead of the collector, and reports whether it did.
type Answer func(w http.ResponseWriter, r *http.Request) bool

// New starts a collector. It must be closed.
func New() *Collector {
	c := &Collector{news: make(chan struct{})}
	c.server = httptest.NewServer(http.HandlerFunc(c.take))
	return c
}

// Close stops the collector.
func (c *Collector) Close() { c.server.Close() }

// URL returns the endpoint, without the path.
func (c *Collector) URL() string { return c.server.URL }

// Refuse makes a answer the requests; nil accepts them again.
func (c *Collector) Refuse(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	c.headers = r.Header.Clone()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil && answer(w, r) {
		c.tell(nil, nil)
		return
	}
	spans, err := read(r)
	c.tell(spans, err)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	if b, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{}); err == nil {
		w.Write(b) //nolint:errcheck // who is gone hears nothing
	}
}

func (c *Collector) tell(spans []Span, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	if err != nil {
		c.faults = append(c.faults, err)
	}
	close(c.news)
	c.news = make(chan struct{})
}

// read decodes a request as specified.
func read(r *http.Request) ([]Span, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/traces") || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return nil, fmt.Errorf("%s %s with %s is no request of OTLP", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return Decode(body)
}

// Decode decodes an OTLP request. Unknown content is an error.
func Decode(body []byte) ([]Span, error) {
	var request collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	var all []Span
	for _, of := range request.GetResourceSpans() {
		resource := values(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			if scope.GetScope().GetName() == "" {
				return nil, fmt.Errorf("a scope has no name")
			}
			for _, s := range scope.GetSpans() {
				if len(s.ProtoReflect().GetUnknown()) > 0 || len(s.GetTraceId()) != 16 || len(s.GetSpanId()) != 8 ||
					s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStartTimeUnixNano() == 0 || s.GetName() == "" {
					return nil, fmt.Errorf("this is no whole span: %v", s)
				}
				all = append(all, span(s, resource))
			}
		}
	}
	return all, nil
}

func span(s *tracepb.Span, resource map[string]any) Span {
	return Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), Kind: strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")), State: s.GetTraceState(),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR, Message: s.GetStatus().GetMessage(),
		Attributes: values(s.GetAttributes()), Resource: resource,
	}
}

func values(pairs []*commonpb.KeyValue) map[string]any {
	all := make(map[string]any, len(pairs))
	for _, p := range pairs {
		switch v := p.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[p.GetKey()] = v.StringValue
		case *commonpb.AnyValue_BoolValue:
			all[p.GetKey()] = v.BoolValue
		case *commonpb.AnyValue_IntValue:
			all[p.GetKey()] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			all[p.GetKey()] = v.DoubleValue
		}
	}
	return all
}

// Await waits until is returns true for all received spans, and returns them. The
// error has their names, and the faults of requests.
func (c *Collector) Await(ctx context.Context, is func([]Span) bool) ([]Span, error) {
	for {
		c.mu.Lock()
		all, faults, news := slices.Clone(c.spans), slices.Clone(c.faults), c.news
		c.mu.Unlock()
		if len(faults) > 0 {
			return all, faults[0]
		}
		if is(all) {
			return all, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return all, fmt.Errorf("only these spans have come: %q: %w", Names(all), context.Cause(ctx))
		}
	}
}

// Requests returns how many requests were received, and the headers of the last.
func (c *Collector) Requests() (int, http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.headers
}

// Names returns the names of spans.
func Names(all []Span) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// Tree formats the spans of a trace as lines, each indented below its parent, ordered
// by start, name and end. Spans whose parent was not received are at the top level.
func Tree(all []Span, trace string) string {
	below := map[string][]Span{}
	there := map[string]bool{}
	for i := range all {
		if all[i].Trace == trace {
			there[all[i].ID] = true
		}
	}
	for i := range all {
		if all[i].Trace != trace {
			continue
		}
		parent := all[i].Parent
		if !there[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], all[i])
	}
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		children := below[parent]
		slices.SortFunc(children, func(x, y Span) int {
			if n := attemptOf(x) - attemptOf(y); n != 0 {
				return n
			}
			if n := rank(x) - rank(y); n != 0 {
				return n
			}
			return x.Start.Compare(y.Start)
		})
		for _, s := range children {
			b.WriteString(indent + s.Name + "\n")
			write(s.ID, indent+"  ")
		}
	}
	write("", "")
	return b.String()
}

// rank puts a wait before its run, and the outcome last.
func rank(s Span) int {
	word, _, _ := strings.Cut(s.Name, " ")
	return slices.Index([]string{"wait", "run", "outcome"}, word)
}

func attemptOf(s Span) int {
	switch n, ok := s.Attributes["bullpen.attempt"].(int64); {
	case ok:
		return int(n)
	case s.Name == "outcome":
		return 1 << 20
	}
	return 0
}

// Keys returns the keys of the attributes of s, sorted.
func (s *Span) Keys() []string { return slices.Sorted(maps.Keys(s.Attributes)) }
