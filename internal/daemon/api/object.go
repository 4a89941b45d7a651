package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// mostObject is the largest request body that is one small object, in bytes.
const mostObject = 64 << 10

// readObject decodes a body that is a JSON object, and calls set for each member. An
// empty body counts as an empty object.
func readObject(r *http.Request, known []string, f *faults, set func(name string, value []byte) error) *problem.Problem {
	if p := checkType(r, jsonType); p != nil {
		return p
	}
	body, p := readBody(r, mostObject, "the API", "this accepts only a small JSON object")
	if p != nil || len(body) == 0 {
		return p
	}
	if err := eachMember(body, f, known, set); err != nil {
		f.add("the body " + err.Error())
	}
	return f.problem()
}

// eachMember calls set for each member of a JSON object whose name is known, and
// collects a fault for each other member, until mostFaults is reached. The error
// means that b is no object. Unlike encoding/json, it compares names
// case-sensitively.
func eachMember(b []byte, f *faults, known []string, set func(name string, value []byte) error) error {
	var seen []string // known names seen, each once, so that it stays short
	return members(b, func(name string, value []byte) bool {
		switch {
		case !slices.Contains(known, name):
			f.add(unknown("field", name, known))
		case slices.Contains(seen, name):
			f.add("the field " + name + " is given twice: give it once")
		case isNull(value):
			f.add("the field " + name + " is null: leave it out")
		default:
			seen = append(seen, name)
			if err := set(name, value); err != nil {
				f.add(name + " is " + shown(value) + ": " + err.Error())
			}
		}
		return !f.full()
	})
}

// shown returns a JSON value in the form in which faults quote it.
func shown(value []byte) string {
	const most = 80
	if len(value) > most {
		return string(value[:most]) + "…"
	}
	return string(value)
}

// members calls f for each member of a JSON object, until f returns false.
func members(b []byte, f func(name string, value []byte) (goesOn bool)) error {
	switch {
	case !utf8.Valid(b):
		return errors.New("is not UTF-8: send binary data as payload_base64")
	case !json.Valid(b):
		return errors.New("is not valid JSON")
	}
	if half := loneSurrogate(b); half != "" {
		return errors.New("has " + half + ", half of a character: write both halves, or send binary data as payload_base64")
	}
	at := skipSpace(b, 0)
	if b[at] != '{' {
		return errors.New("is not a JSON object: write {...}")
	}
	// From here on b is known to be valid JSON, so no index runs past its end.
	for at = skipSpace(b, at+1); b[at] != '}'; {
		end := skipValue(b, at)
		var name string
		if err := json.Unmarshal(b[at:end], &name); err != nil {
			return err
		}
		at = skipSpace(b, skipSpace(b, end)+1) // after the colon
		end = skipValue(b, at)
		if !f(name, b[at:end]) {
			return nil
		}
		if at = skipSpace(b, end); b[at] == ',' {
			at = skipSpace(b, at+1)
		}
	}
	return nil
}

// loneSurrogate returns the first escape of valid JSON that is half of a UTF-16
// surrogate pair without the other half; empty for none. encoding/json replaces all
// of these with the same character, which would make different names, keys and
// payloads equal.
func loneSurrogate(b []byte) string {
	const size = len(`\u0000`)
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\\')
		if i < 0 {
			return ""
		}
		at += i
		if b[at+1] != 'u' {
			at += 2
			continue
		}
		switch r := escaped(b[at:]); {
		case !utf16.IsSurrogate(r):
			at += size
		case len(b) >= at+2*size && b[at+size] == '\\' && b[at+size+1] == 'u' && utf16.DecodeRune(r, escaped(b[at+size:])) != utf8.RuneError:
			at += 2 * size
		default:
			return string(b[at : at+size])
		}
	}
}

// escaped returns the number of an escape such as \u00e4 in valid JSON.
func escaped(b []byte) rune {
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

var errTooMany = errors.New("there are too many")

// elements returns the elements of an array of valid JSON, as subslices of b. The
// error is errTooMany if there are more than most.
func elements(b []byte, most int) (all [][]byte, err error) {
	at := skipSpace(b, 0)
	if b[at] != '[' {
		return nil, errors.New("use an array of objects")
	}
	for at = skipSpace(b, at+1); b[at] != ']'; {
		if len(all) == most {
			return nil, errTooMany
		}
		end := skipValue(b, at)
		all = append(all, b[at:end])
		if at = skipSpace(b, end); b[at] == ',' {
			at = skipSpace(b, at+1)
		}
	}
	return all, nil
}

func skipSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r') {
		at++
	}
	return at
}

// skipValue returns the index after the value that begins at at.
func skipValue(b []byte, at int) int {
	depth := 0
	for i := at; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of the enclosing value
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}
