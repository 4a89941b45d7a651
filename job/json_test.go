package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// The JSON of a job is that of the daemon's API.
func ExampleJob_MarshalJSON() {
	text, err := json.Marshal(job.Job{
		Queue: "thumbnails", Name: "resize", Payload: []byte("cat.jpeg"), Priority: job.High,
		Delay: 1500 * time.Millisecond, Retry: job.Retry{Attempts: 3},
	})
	fmt.Println(string(text), err)
	// Output: {"pool":"thumbnails","task":"resize","payload":"cat.jpeg","priority":"high","delay":1.5,"attempts":3} <nil>
}

func ExampleJob_Parameters() {
	j := job.Job{Name: "resize", Key: "cat", Delay: 90 * time.Second, Idempotent: true}
	j.Parameters(func(name, value string) { fmt.Println(name, value) })
	// Output:
	// task resize
	// key cat
	// delay 1m30s
	// idempotent true
}

func ExampleInfo_ErrorText() {
	var i job.Info
	err := json.Unmarshal([]byte(`{"id":"01J","state":"dead","outcome":"failed","reason":"final","error":"no file"}`), &i)
	fmt.Println(i.ErrorText(), err)
	fmt.Println(i.Err)
	// Output:
	// no file <nil>
	// job 01J ended failed (final): no file
}

func TestTextsOfJobsMustBeUTF8(t *testing.T) {
	t.Parallel()
	for field, j := range map[string]job.Job{
		"Name": {Name: "\xff"}, "Key": {Key: "\xff"}, "Group": {Group: "\xff"}, "Compensate": {Compensate: "\xff"}, "Bury": {Bury: "\xff"},
		"Meta": {Meta: map[string]string{"a": "\xff"}}, "then": {Then: []job.Job{{Name: "\xff"}}},
	} {
		if text, err := json.Marshal(j); err == nil || field != "then" && !strings.Contains(err.Error(), field+" is not UTF-8") {
			t.Errorf("%s: %s, %v", field, text, err)
		}
	}
	var back job.Job
	text, err := json.Marshal(job.Job{Payload: []byte("\xff")})
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || string(back.Payload) != "\xff" {
		t.Errorf("a payload of bytes comes back from %s as %q, %v", text, back.Payload, err)
	}
}

// TestWordsOfALaterVersion has an outcome that this version does not know, and wants the
// error of its end to be ErrNewer.
func TestWordsOfALaterVersion(t *testing.T) {
	t.Parallel()
	var i job.Info
	if err := json.Unmarshal([]byte(`{"id":"a","state":"dead","outcome":"evaporated","reason":"newer","unknown":1}`), &i); err != nil {
		t.Fatal(err)
	}
	if i.Outcome != bullpen.Lost || !errors.Is(i.Err, job.ErrNewer) {
		t.Errorf("it is %v, %v", i.Outcome, i.Err)
	}
	if err := json.Unmarshal([]byte(`{"id":"a","state":"floating"}`), &i); err == nil || !strings.Contains(err.Error(), "floating") {
		t.Errorf("an unknown state: %v", err)
	}
}

// FuzzJSON decodes, encodes and decodes again: what was understood once stays the same.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"id":"a","state":"dead","outcome":"failed","waited":1e308,"history":[{"outcome":"x","ran":-1}],"lines":[{"level":8}],"failure":{"exit_code":3}}`))
	f.Add([]byte(`{"name":"a","pool":"p","every":1.5,"missed":"once","job":{"payload_base64":"/w==","timeout":2},"next":"2026-11-22T01:30:00Z","fired":7}`))
	f.Add([]byte(`{"id":"b","state":"running","total":3,"then":{"pool":"p","delay":1e300,"then":[{"task":"t"}]},"meta":{"a":"b"}}`))
	f.Add([]byte(`{"cause":"89af7e51c13b","outcome":"panic","first":"2026-11-22T01:30:00+01:00","job":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		stays[job.Job](t, text)
		stays[job.Info](t, text)
		stays[job.BatchInfo](t, text)
		stays[job.ScheduleInfo](t, text)
		stays[job.Cause](t, text)
	})
}

func stays[T any](t *testing.T, text []byte) {
	t.Helper()
	var first, second T
	if json.Unmarshal(text, &first) != nil {
		return
	}
	line, err := json.Marshal(first)
	if err != nil {
		return // a year beyond 9999
	}
	if err := json.Unmarshal(line, &second); err != nil {
		t.Fatalf("%T: %s became %s: %v", first, text, line, err)
	}
	again, err := json.Marshal(second)
	if err != nil || string(again) != string(line) {
		t.Fatalf("%T: %s became %s, and then %s, %v", first, text, line, again, err)
	}
}
