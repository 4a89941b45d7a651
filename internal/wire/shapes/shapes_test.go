package shapes

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// outcomes says what became of each task: ok, the text of a failure, or final: and the text.
func outcomes(replies []Reply, err error) string {
	if err != nil {
		return "all: " + err.Error()
	}
	var all []string
	for _, r := range replies {
		switch {
		case r.Failure == nil:
			all = append(all, "ok "+string(r.Result))
		case r.Final:
			all = append(all, "final "+r.Failure.Error())
		default:
			all = append(all, "failed "+r.Failure.Error())
		}
	}
	return strings.Join(all, ", ")
}

// TestAnswersOfSQS: what AWS documents for partial batch responses.
func TestAnswersOfSQS(t *testing.T) {
	t.Parallel()
	const named = "failed BatchItemFailure: the function has named it in batchItemFailures"
	for answer, want := range map[string]string{
		``:                           "ok , ok ",
		` null `:                     "ok , ok ",
		`{}`:                         "ok , ok ",
		`{"statusCode":200}`:         "ok , ok ",
		`{"batchItemFailures":[]}`:   "ok , ok ",
		`{"batchItemFailures":null}`: "ok , ok ",
		`{"batchItemFailures":[{"itemIdentifier":"b"}]}`:                        "ok , " + named,
		`{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"b"}]}`: "ok , " + named,
		`{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"a"}]}`: named + ", " + named,
		`{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"c"}]}`: `all: the answer of the call cannot be used: batchItemFailures has the itemIdentifier "c", which is none of the event's messageIds`,
		`{"batchItemFailures":[{"itemIdentifier":""}]}`:                         `all: the answer of the call cannot be used: batchItemFailures has the itemIdentifier "", which is none of the event's messageIds`,
		`{"batchItemFailures":[{"itemIdentifier":null}]}`:                       "all: the answer of the call cannot be used: an entry of batchItemFailures has no itemIdentifier",
		`{"batchItemFailures":[{"id":"a"}]}`:                                    "all: the answer of the call cannot be used: an entry of batchItemFailures has no itemIdentifier",
		`{"batchItemFailures":[null]}`:                                          "all: the answer of the call cannot be used: an entry of batchItemFailures has no itemIdentifier",
		`{"batchItemFailures":["a"]}`:                                           "all: the answer of the call cannot be used: it must be null or",
		`"done"`:                                                                "all: the answer of the call cannot be used: it must be null or",
		`{"batchItemFailures":`:                                                 "all: the answer of the call cannot be used: it must be null or",
	} {
		if got := outcomes(SQS{}.Split([]byte(answer), []string{"a", "b"})); !strings.HasPrefix(got, want) || strings.HasPrefix(want, "ok") && got != want {
			t.Errorf("%s: %s\nwant %s", answer, got, want)
		}
	}
}

func TestAnswersOfList(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`[1, "b"]`:      `ok 1, ok "b"`,
		` [ {} , null]`: "ok {}, ok null",
		`[{"error":"no such user"},{"error":"gone","type":"NotFound","retry":false}]`: "failed no such user, final NotFound: gone",
		`[{"error":"","retry":true},1]`:                                               "failed , ok 1",
		`[{"error":7},{"error":"x","id":1}]`:                                          `ok {"error":7}, ok {"error":"x","id":1}`,
		`[{"error":null},{"error":"x","type":1}]`:                                     `ok {"error":null}, ok {"error":"x","type":1}`,
		`[{"type":"error"},{"a":{"error":"deep"}}]`:                                   `ok {"type":"error"}, ok {"a":{"error":"deep"}}`,
		`[1]`:     "all: the answer of the call cannot be used: it has 1 results for 2 tasks",
		`[1,2,3]`: "all: the answer of the call cannot be used: it has 3 results for 2 tasks",
		`null`:    "all: the answer of the call cannot be used: it has 0 results for 2 tasks",
		``:        "all: the answer of the call cannot be used: it must be an array of 2 results",
		`{}`:      "all: the answer of the call cannot be used: it must be an array of 2 results",
		`[1,2`:    "all: the answer of the call cannot be used: it must be an array of 2 results",
	} {
		if got := outcomes(List{}.Split([]byte(answer), []string{"a", "b"})); got != want && !(strings.HasPrefix(want, "all: ") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s\nwant %s", answer, got, want)
		}
	}
}

func TestPayloadsOfList(t *testing.T) {
	t.Parallel()
	var items [][]byte
	for _, payload := range []string{`{"a": 1}`, "", " 7\n", `"x"`} {
		item, err := List{}.Item(Task{Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	if got, _ := (List{}).Join(items, make([]string, 4)); string(got) != `[{"a": 1},null, 7`+"\n"+`,"x"]` {
		t.Errorf("%s", got)
	}
	for _, payload := range []string{"no JSON", "1,2", "\xff", "{}{}"} {
		if _, err := (List{}).Item(Task{Payload: []byte(payload)}); err == nil || !strings.Contains(err.Error(), "not JSON") {
			t.Errorf("%q: %v", payload, err)
		}
	}
}

// TestEventOfSQS reads an event by the types of AWS.
func TestEventOfSQS(t *testing.T) {
	t.Parallel()
	s := SQS{Queue: "thumbs", Region: "us-east-1"}
	ids := []string{"one", "", "one", `a "quoted" <id>`}
	var items [][]byte
	size := 0
	for i, body := range []string{`{"a":1}`, "", "plain <text>", "\u2028 \t\x01"} {
		item, err := s.Item(Task{Payload: []byte(body), Meta: map[string]string{"tenant": "x", "bullpen.attempt": "3"}, Attempt: []string{"", "3"}[i%2]})
		if err != nil {
			t.Fatal(err)
		}
		items, size = append(items, item), size+Size(item, ids[i])
	}
	text, known := s.Join(items, ids)
	if len(text) > size {
		t.Errorf("the event has %d bytes, more than its bound %d", len(text), size)
	}
	var event events.SQSEvent
	if err := json.Unmarshal(text, &event); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(known) != 4 || known[0] != "one" || known[3] != ids[3] || known[1] == "" || known[2] == "one" || known[1] == known[2] {
		t.Errorf("the IDs are %q", known)
	}
	var got []string
	for i, r := range event.Records {
		if r.MessageId != known[i] || r.ReceiptHandle != known[i] {
			t.Errorf("message %d has the ID %q, want %q", i, r.MessageId, known[i])
		}
		got = append(got, r.Body, r.Attributes["ApproximateReceiveCount"])
	}
	if want := []string{`{"a":1}`, "1", "", "3", "plain <text>", "1", "\u2028 \t\x01", "3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	r := event.Records[0]
	if r.EventSource != "aws:sqs" || r.EventSourceARN != "arn:aws:sqs:us-east-1:000000000000:thumbs" || r.AWSRegion != "us-east-1" ||
		r.Md5OfBody != "bb6cb5c68df4652941caf652a366f2d8" || len(r.Attributes["SentTimestamp"]) != 13 {
		t.Errorf("%+v", r)
	}
	if a := r.MessageAttributes; len(a) != 1 || a["tenant"].DataType != "String" || a["tenant"].StringValue == nil || *a["tenant"].StringValue != "x" {
		t.Errorf("the attributes are %+v", a)
	}
	if _, err := s.Item(Task{Payload: []byte("\xff")}); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a payload of bytes: %v", err)
	}
}

// FuzzSplit: whatever an answer is, there is a reply for each task, or an error for all.
func FuzzSplit(f *testing.F) {
	for _, answer := range []string{``, `null`, `[1,{"error":"x","retry":false}]`, `{"batchItemFailures":[{"itemIdentifier":"b"}]}`, `[[],{"error":`, `[{"error" :"x"}, 1]`} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, s := range []Shape{List{}, SQS{}} {
			replies, err := s.Split(answer, []string{"a", "b"})
			if (err == nil) != (len(replies) == 2) {
				t.Fatalf("%T: %d replies and %v for %q", s, len(replies), err, answer)
			}
			for _, r := range replies {
				if r.Result != nil && !json.Valid(r.Result) {
					t.Fatalf("%T: the result %q of %q", s, r.Result, answer)
				}
			}
		}
	})
}

// FuzzItem: an item makes a valid input, from which the payload comes back.
func FuzzItem(f *testing.F) {
	f.Add([]byte(`{"a":"\u2028"}`), "id")
	f.Add([]byte("text \x00 \xff"), "\xff")
	f.Fuzz(func(t *testing.T, payload []byte, id string) {
		for _, s := range []Shape{List{}, SQS{Queue: "q", Region: "r"}} {
			item, err := s.Item(Task{Payload: payload, Meta: map[string]string{id: string(payload)}})
			if err != nil {
				continue
			}
			input, _ := s.Join([][]byte{item, item}, []string{id, id})
			if !json.Valid(input) || len(input) > 2*Size(item, id) {
				t.Fatalf("%T: %d bytes, bound %d: %q", s, len(input), 2*Size(item, id), input)
			}
			var event events.SQSEvent
			if _, sqs := s.(SQS); sqs && (json.Unmarshal(input, &event) != nil || len(event.Records) != 2 || event.Records[1].Body != string(payload)) {
				t.Fatalf("%q: %+v", payload, event)
			}
		}
	})
}
