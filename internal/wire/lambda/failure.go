package lambda

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// ParseFailure parses the body of an error. A body that is not an object of the Runtime API
// becomes the message. kind is the type that the header names, which is used if the body
// names none: clients differ in what they write there.
func ParseFailure(body []byte, kind string) *wire.Failure {
	var object struct {
		Message *string           `json:"errorMessage"`
		Type    string            `json:"errorType"`
		Stack   []json.RawMessage `json:"stackTrace"`
		Trace   []json.RawMessage `json:"trace"`
	}
	if err := json.Unmarshal(body, &object); err != nil && object.Message == nil {
		return &wire.Failure{Type: kind, Message: strings.ToValidUTF8(string(body), string(utf8.RuneError))}
	}
	f := &wire.Failure{Type: object.Type}
	if object.Message != nil {
		f.Message = *object.Message
	}
	if f.Type == "" {
		f.Type = kind
	}
	var lines []string
	for _, one := range append(object.Stack, object.Trace...) {
		lines = append(lines, frame(one))
	}
	f.Stack = strings.Join(lines, "\n")
	return f
}

// frame returns one entry of a stack as text. Python, Node and Java write texts, Go writes
// objects.
func frame(entry json.RawMessage) string {
	var text string
	if json.Unmarshal(entry, &text) == nil {
		return strings.TrimRight(text, "\n")
	}
	var place struct {
		Path, Label string
		Line        int
	}
	if json.Unmarshal(entry, &place) == nil && place.Path != "" {
		b, _ := json.Marshal(place.Line) // a number always can be
		return place.Label + " (" + place.Path + ":" + string(b) + ")"
	}
	return string(entry)
}
