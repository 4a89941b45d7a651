package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// canonical returns the request in the form that is signed.
func (s *Request) canonical(body [sha256.Size]byte) []byte {
	r := s.request
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	b := make([]byte, 0, 1<<10)
	b = append(append(b, r.Method...), '\n')
	b = append(escape(b, path, true), '\n')
	b = append(append(b, canonicalQuery(r.URL.RawQuery)...), '\n')
	for _, name := range s.signed {
		b = append(append(b, name...), ':')
		b = append(append(b, s.header(name)...), '\n')
	}
	b = append(b, '\n')
	b = append(append(b, strings.Join(s.signed, ";")...), '\n')
	return hex.AppendEncode(b, body[:])
}

// header returns the canonical value of a header, whose name is in lower case.
func (s *Request) header(name string) string {
	r := s.request
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	var all []string
	for of, values := range r.Header {
		if strings.EqualFold(of, name) {
			for _, v := range values {
				all = append(all, strings.Join(strings.FieldsFunc(v, func(c rune) bool { return c == ' ' }), " "))
			}
		}
	}
	return strings.Join(all, ",")
}

// canonicalQuery returns a query with sorted and uniformly encoded parameters.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var all []string
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		b := append(escape(nil, decoded(name), false), 0) // sorts a name before those that begin with it
		all = append(all, string(escape(b, decoded(value), false)))
	}
	slices.Sort(all)
	return strings.ReplaceAll(strings.Join(all, "&"), "\x00", "=")
}

// decoded returns the text that a part of a query stands for, or the part itself if it
// is not well encoded.
func decoded(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}

const upperHex = "0123456789ABCDEF"

// escape appends s with all bytes escaped except letters, digits and -._~, and / in a
// path.
func escape(b []byte, s string, path bool) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/' && path:
			b = append(b, c)
		default:
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}
