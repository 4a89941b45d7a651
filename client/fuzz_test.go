package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// FuzzProblem reads answers that say no: whatever they say, there is an error, of
// one of two types.
func FuzzProblem(f *testing.F) {
	f.Add(422, []byte(`{"type":"urn:bullpen:problem:ended-badly","cause":"ended-badly","outcome":"failed","failure":{"outcome":"failed","exit_code":3}}`), "")
	f.Add(429, []byte(`{"cause":"overloaded","faults":["a"]}`), "3")
	f.Add(503, []byte(`<html>`), "Sat, 21 Nov 2026 13:00:00 GMT")
	f.Add(200, []byte(`{"type":"urn:bullpen:problem:"}`), "-1")
	f.Add(500, []byte(`{"cause":"x","outcome":"ok"}`), "1e300")
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		err := readProblem(status, http.Header{"Retry-After": {after}}, body)
		var no *Error
		var end *job.EndError
		switch {
		case errors.As(err, &end):
			if end.Outcome == bullpen.OK || int(end.Outcome) >= bullpen.OutcomeCount {
				t.Errorf("an end that is an error has outcome %v", end.Outcome)
			}
		case errors.As(err, &no):
			if no.Cause == "" || no.RetryAfter < 0 || no.RetryAfter > longestRetryAfter {
				t.Errorf("%#v", no)
			}
		default:
			t.Errorf("no error: %v", err)
		}
		_ = err.Error()
		if never := neverStarted(err); no != nil && !errors.Is(never, err) {
			t.Errorf("%v hides %v", never, err)
		}
	})
}

// FuzzEvents reads a stream of events: bounded, and the same however it is cut.
func FuzzEvents(f *testing.F) {
	f.Add("id: 1.1\nevent: log\ndata: {\"text\":\"a\"}\n\n: gap: 3\n\nevent: end\ndata: {\"state\":\"done\"}\n\n")
	f.Add("data\ndata: x\r\n\r\nid: \x00\nretry: 3\n\n")
	f.Add("event: result\ndata: {\"payload_base64\":\"eA==\",\"stats\":{\"ran\":1e400}}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		const most = 1 << 10
		type event struct {
			id, kind, data string
			comment        bool
		}
		read := func(in *frames) (all []event) {
			for {
				e, err := in.next()
				if err != nil {
					return all
				}
				if len(e.data) > most+lineSlack {
					t.Fatalf("an event has %d bytes", len(e.data))
				}
				all = append(all, event{e.id, e.kind, string(e.data), e.comment})
				_, _, _ = readEvent(e)
				_, _, _ = readRun(e, deaf{})
			}
		}
		whole := read(newFrames(strings.NewReader(text), most))
		cut := read(newFrames(&byByte{text}, most))
		if !reflect.DeepEqual(whole, cut) {
			t.Errorf("read at once: %+v, byte by byte: %+v", whole, cut)
		}
	})
}

type deaf struct{}

func (deaf) Progress(float64, string) {}
func (deaf) Log(bullpen.LogLine)      {}

// byByte gives a text one byte at a time.
type byByte struct{ text string }

func (b *byByte) Read(p []byte) (int, error) {
	n, err := strings.NewReader(b.text).Read(p[:min(1, len(p))])
	b.text = b.text[n:]
	return n, err
}

// FuzzBulk reads answers to bulks: each line gives a ref or an error.
func FuzzBulk(f *testing.F) {
	f.Add(`{"id":"a","state":"queued"}` + "\n" + `{"error":{"cause":"full","status":429}}` + "\n")
	f.Add(`{"error":null}{"id":""}[]`)
	f.Add(`{"error":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		_ = readBulk(strings.NewReader(text), func(ref job.Ref, err error) bool {
			if err == nil && ref.ID == "" {
				t.Error("a job without an id and without an error")
			}
			n++
			return n < 100
		})
	})
}

// FuzzAnswers reads the JSON of the API.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"id":"a","outcome":"failed","waited":1e308,"history":[{"outcome":"x","ran":-1}],"lines":[{"level":8}],"failure":{}}`))
	f.Add([]byte(`{"name":"p","wait_p50":1,"uptime":2,"outcomes":{"ok":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var i job.Info
		if json.Unmarshal(text, &i) == nil {
			if err := i.Err; err != nil {
				_ = err.Error()
			}
		}
		var p Pool
		_ = json.Unmarshal(text, &p)
		var s Status
		_ = json.Unmarshal(text, &s)
	})
}
