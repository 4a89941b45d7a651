package trace

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of OTLP messages, named as in opentelemetry/proto/trace/v1/trace.proto.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScope    = 2

	resourceAttributes = 1

	scopeSpansScope = 1
	scopeSpansSpans = 2

	scopeName    = 1
	scopeVersion = 2

	spanTraceID    = 1
	spanSpanID     = 2
	spanState      = 3
	spanParentID   = 4
	spanName       = 5
	spanKindField  = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanStatus     = 15

	statusMessage = 2
	statusCode    = 3
	statusError   = 2

	pairKey   = 1
	pairValue = 2

	valueText   = 1
	valueFlag   = 2
	valueNumber = 3
	valueDouble = 4

	responsePartial = 1
	partialRejected = 1
)

// encoder encodes spans as OTLP requests. Only one goroutine may use it.
type encoder struct {
	resource []attribute
	version  string
	parts    []byte // spans of the request, one after the other
	one      []byte // buffer for the current span
	pair     []byte // buffer for the current attribute
	value    []byte
}

// add adds a span.
func (e *encoder) add(s *span) {
	b := e.one[:0]
	b = appendBytes(b, spanTraceID, s.trace[:])
	b = appendBytes(b, spanSpanID, s.id[:])
	if s.state != "" {
		b = appendText(b, spanState, s.state)
	}
	if s.parent != (SpanID{}) {
		b = appendBytes(b, spanParentID, s.parent[:])
	}
	b = appendText(b, spanName, s.name)
	b = appendNumber(b, spanKindField, uint64(s.kind))
	b = appendTime(b, spanStart, s.start)
	b = appendTime(b, spanEnd, s.end)
	b = e.attributes(b, spanAttributes, s.attributes)
	if s.failed {
		status := appendText(e.value[:0], statusMessage, s.message)
		status = appendNumber(status, statusCode, statusError)
		b = appendBytes(b, spanStatus, status)
		e.value = status
	}
	e.one = b
	e.parts = appendBytes(e.parts, scopeSpansSpans, b)
}

// take returns a request with all spans added since the last call.
func (e *encoder) take() []byte {
	scope := appendText(nil, scopeName, "github.com/bullpen-run/bullpen")
	scope = appendText(scope, scopeVersion, e.version)
	spans := appendBytes(nil, scopeSpansScope, scope)
	spans = append(spans, e.parts...)
	all := appendBytes(nil, resourceSpansResource, e.attributes(nil, resourceAttributes, e.resource))
	all = appendBytes(all, resourceSpansScope, spans)
	e.parts = e.parts[:0]
	return appendBytes(nil, requestResourceSpans, all)
}

func (e *encoder) attributes(b []byte, field protowire.Number, all []attribute) []byte {
	for i := range all {
		a := &all[i]
		v := e.value[:0]
		switch a.kind {
		case isText:
			v = appendText(v, valueText, a.text)
		case isNumber:
			v = appendNumber(v, valueNumber, uint64(a.number))
		case isFlag:
			v = appendNumber(v, valueFlag, uint64(a.number))
		case isSeconds:
			v = protowire.AppendTag(v, valueDouble, protowire.Fixed64Type)
			v = protowire.AppendFixed64(v, math.Float64bits(time.Duration(a.number).Seconds()))
		}
		p := appendText(e.pair[:0], pairKey, a.key)
		p = appendBytes(p, pairValue, v)
		b = appendBytes(b, field, p)
		e.value, e.pair = v, p
	}
	return b
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// appendText appends a text; protobuf requires UTF-8.
func appendText(b []byte, field protowire.Number, v string) []byte {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(max(t.UnixNano(), 0)))
}

// rejected returns how many spans the collector rejected, according to its answer; 0
// if the answer cannot be decoded.
func rejected(answer []byte) (n int64) {
	partial := fieldOf(answer, responsePartial, protowire.BytesType)
	if partial == nil {
		return 0
	}
	part, size := protowire.ConsumeBytes(partial)
	if size < 0 {
		return 0
	}
	count := fieldOf(part, partialRejected, protowire.VarintType)
	v, size := protowire.ConsumeVarint(count)
	if size < 0 || v > math.MaxInt32 {
		return 0
	}
	return int64(v)
}

// fieldOf returns b from the value of a field on; nil if there is none.
func fieldOf(b []byte, field protowire.Number, of protowire.Type) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == field && kind == of {
			return b
		}
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// short cuts a text at a character boundary.
func short(s string) string {
	if len(s) <= mostMessage {
		return s
	}
	most := mostMessage
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
