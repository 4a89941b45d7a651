package logs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// freeze replaces the values of r that may change before they are written by their
// present text. A record of plain values is returned unchanged.
func (l *Log) freeze(r slog.Record) slog.Record {
	plain := true
	r.Attrs(func(a slog.Attr) bool {
		plain = isPlain(a.Value.Kind())
		return plain
	})
	if plain {
		return r.Clone()
	}
	frozen := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		frozen.AddAttrs(l.freezeAttr(a))
		return true
	})
	return frozen
}

// isPlain reports whether values of a kind never change.
func isPlain(k slog.Kind) bool {
	return k != slog.KindAny && k != slog.KindLogValuer && k != slog.KindGroup
}

func (l *Log) freezeAttr(a slog.Attr) slog.Attr {
	switch a.Value = a.Value.Resolve(); a.Value.Kind() { // a LogValuer that panics resolves to an error
	case slog.KindGroup:
		members := slices.Clone(a.Value.Group())
		for i, m := range members {
			members[i] = l.freezeAttr(m)
		}
		a.Value = slog.GroupValue(members...)
	case slog.KindAny:
		a.Value = l.freezeAny(a.Value.Any())
	default:
	}
	return a
}

// freezeAny returns what the handlers of package slog would write for v.
func (l *Log) freezeAny(v any) (frozen slog.Value) {
	defer func() {
		if p := recover(); p != nil {
			frozen = slog.StringValue(fmt.Sprintf("!PANIC: %v", p))
		}
	}()
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		if _, ok := v.(json.Marshaler); ok && l.json {
			break
		}
		return slog.StringValue(v.Error())
	case *url.URL:
		return slog.StringValue(v.Redacted())
	case http.Header:
		return members(v, func(values []string) string { return strings.Join(values, ", ") })
	case map[string]string:
		return members(v, func(value string) string { return value })
	case *slog.Source:
		return slog.AnyValue(v)
	}
	if l.json {
		return frozenJSON(v)
	}
	switch v := v.(type) {
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return slog.StringValue("!ERROR:" + err.Error())
		}
		return slog.StringValue(string(text))
	case []byte:
		return slog.StringValue(string(v))
	}
	return slog.StringValue(fmt.Sprintf("%+v", v))
}

func frozenJSON(v any) slog.Value {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return slog.StringValue("!ERROR:" + err.Error())
	}
	return slog.AnyValue(json.RawMessage(bytes.TrimSuffix(text.Bytes(), []byte("\n"))))
}

// members converts a map to a group, so that its keys are checked for secrets.
func members[V any](all map[string]V, text func(V) string) slog.Value {
	attrs := make([]slog.Attr, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		attrs = append(attrs, slog.String(key, text(all[key])))
	}
	return slog.GroupValue(attrs...)
}
