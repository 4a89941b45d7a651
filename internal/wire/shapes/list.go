package shapes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// List has an array of the payloads as input, and an array of as many results as answer.
// Payloads and results are JSON values; an empty payload becomes null. An element with the
// key "error", a text, and no keys but that, "type" and "retry" is a failure.
type List struct{}

var _ Shape = List{}

// Item returns the payload.
func (List) Item(t Task) ([]byte, error) {
	if len(t.Payload) == 0 {
		return []byte("null"), nil
	}
	if !json.Valid(t.Payload) {
		return nil, errors.New("its payload is not JSON, and a list has JSON values only: encode it, binary data as a text in base64 for instance")
	}
	return t.Payload, nil
}

// Join returns the array of items.
func (List) Join(items [][]byte, ids []string) (input []byte, known []string) {
	size := 1 + len(items)
	for _, item := range items {
		size += len(item)
	}
	input = append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			input = append(input, ',')
		}
		input = append(input, item...)
	}
	return append(input, ']'), ids
}

// Split returns the elements of the array answer.
func (List) Split(answer []byte, known []string) ([]Reply, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(answer, &elements); err != nil {
		return nil, fmt.Errorf("%w: it must be an array of %d results: %w", errMalformed, len(known), err)
	}
	if len(elements) != len(known) {
		return nil, fmt.Errorf("%w: it has %d results for %d tasks", errMalformed, len(elements), len(known))
	}
	replies := make([]Reply, len(elements))
	for i, e := range elements {
		replies[i] = replyOf(e)
	}
	return replies, nil
}

// replyOf returns what one element means.
func replyOf(element []byte) Reply {
	var fields map[string]json.RawMessage
	if element[0] != '{' || !bytes.Contains(element, []byte(`"error"`)) || json.Unmarshal(element, &fields) != nil {
		return Reply{Result: element}
	}
	r := Reply{Failure: &wire.Failure{}}
	retry := true
	for key, value := range fields {
		var err error
		switch key {
		case "error":
			err = text(value, &r.Failure.Message)
		case "type":
			err = text(value, &r.Failure.Type)
		case "retry":
			err = json.Unmarshal(value, &retry)
		default:
			return Reply{Result: element}
		}
		if err != nil {
			return Reply{Result: element}
		}
	}
	if fields["error"] == nil {
		return Reply{Result: element}
	}
	r.Final = !retry
	return r
}

// text sets s to a JSON string. Null is none.
func text(value json.RawMessage, s *string) error {
	if value[0] != '"' {
		return errors.New("it is not a text")
	}
	return json.Unmarshal(value, s)
}
