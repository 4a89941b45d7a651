package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// stamp is a time as records have it.
func stamp(n int64) time.Time { return time.UnixMicro(1_790_000_000_000_000 + n) }

func allOfJob() *Job {
	return &Job{
		ID: anyID(), Enqueued: stamp(1), Again: true, Derived: true, Parent: anyID(), Undoes: "lost",
		Schedule: "nightly", Tick: stamp(10),
		Chain: Position{First: anyID(), Number: 3, Of: 5}, Batch: anyID(), Index: 77,
		Job: job.Job{
			Name: "resize", Payload: []byte("\x00 payload"), Meta: map[string]string{"traceparent": "00-1", "": "", "k": ""},
			Key: "order 17", At: stamp(2), Deadline: stamp(3),
			Limits:     bullpen.Limits{Timeout: time.Second + 1, Memory: 1 << 40, CPU: 1.5, Output: 1 << 20},
			Retry:      job.Retry{Attempts: 7, Backoff: 3, MaxBackoff: time.Hour, Crashes: 2, Nodes: 9, On: []bullpen.Outcome{bullpen.Failed, bullpen.Protocol}},
			Idempotent: true, Compensate: "undo", Bury: "bury", Group: "tenant 7",
			Then: []job.Job{
				{Queue: "other", Name: "next", Priority: job.High, Delay: time.Minute, Meta: map[string]string{"k": "v"}, Retry: job.Retry{Attempts: 2}},
				{Queue: "default", Name: "last", At: stamp(4), Compensate: "undo"},
			},
		},
	}
}

func allOfTries() Tries {
	return Tries{
		Started: 5, Failures: 2, Crashes: 1, Lost: 3, Open: true, Refused: 4, RetryAt: stamp(4),
		History: []job.Attempt{
			{
				Number: 4, Outcome: bullpen.Crashed, Ended: stamp(5), Ran: time.Minute, Node: "n-1", Worker: "w-2",
				Error: "killed", Signal: "SIGKILL", ExitCode: 137, PeakMemory: 1 << 33,
			},
			{Number: 5, Outcome: bullpen.Lost, Ended: stamp(6), ExitCode: -1},
		},
	}
}

func allOfEnding() *End {
	return &End{
		ID: anyID(), Queue: "images", Name: "resize", Key: "order 17", Priority: job.Low, Outcome: bullpen.Memory, Reason: job.Quarantined,
		Enqueued: stamp(1), Ended: stamp(7), Message: "why", Result: []byte("result"), Node: "n-1",
		Failure: &bullpen.TaskError{
			Outcome: bullpen.Memory, Task: "resize", Type: "MemoryError", Message: "no more", Stack: "at a\nat b", Retryable: true,
			Worker: "w-2", ExitCode: 9, Signal: "SIGKILL", Detail: "stderr",
		},
		Stats:    bullpen.Stats{Waited: 3, Ran: 4, Worker: "w-2", PeakMemory: 5, Deaths: 2},
		Schedule: "nightly", Tick: stamp(10),
		Chain: Position{First: anyID(), Number: 3, Of: 5}, Next: anyID(), Batch: anyID(), Index: 77, Size: 78,
		Tries: allOfTries(), Progress: 0.25, Note: "a quarter", Parent: anyID(), Compensate: "undo", Bury: "bury", Group: "tenant 7", Job: []byte("job"),
		Lines: []bullpen.LogLine{{Time: stamp(8), Level: -4, Stream: "log", Text: "one"}, {Time: stamp(9), Level: 8, Stream: "stderr", Text: "two"}},
	}
}

func allOfSchedule() *Schedule {
	r := &Schedule{
		Schedule: job.Schedule{
			Name: "a.b-c_1", Cron: "30 2 * * *", Every: time.Hour, Zone: "Europe/Berlin", Missed: job.MissedAll, Overlap: job.OverlapForbid,
			Paused: true, Origin: "config", Job: allOfJob().Job,
		},
		Since: stamp(1), Anchor: stamp(2),
	}
	r.Job.Queue, r.Job.Priority = "images", job.Low
	r.JobRecord = (&Job{ID: ScheduleJob, Job: r.Job}).Encode()
	return r
}

func allOfTick() Tick {
	return Tick{Since: stamp(1), Last: stamp(2), Job: anyID(), Node: "n-1", Fired: 3, Skipped: 4, Err: "full"}
}

// TestRecordsKeepAll has records whose every field is set, so that a field which
// is added later and not stored is found.
func TestRecordsKeepAll(t *testing.T) {
	t.Parallel()
	s, e, a := allOfJob(), allOfEnding(), allOfTries()
	k := Key{ID: anyID(), State: job.Canceled, Ended: stamp(1), Priority: job.Low, At: stamp(2)}
	r, n := allOfSchedule(), allOfTick()
	// These are known from the subject, or not of a job any more once it is stored.
	elsewhere := []string{"Job.Queue", "Job.Priority", "Job.Delay", "Failure.ID", "Failure.Err", "Schedule.Job.Delay"}
	for name, v := range map[string]any{"job": *s, "ending": *e, "tries": a, "key": k, "schedule": *r, "tick": n} {
		for _, field := range unset(reflect.ValueOf(v), "") {
			if !slices.Contains(elsewhere, field) {
				t.Errorf("%s: the test leaves %s unset", name, field)
			}
		}
	}
	for i := range a.History[:1] {
		if left := unset(reflect.ValueOf(a.History[i]), "history."); left != nil {
			t.Errorf("the test leaves %v unset", left)
		}
	}
	if got, err := DecodeJob(s.ID, s.Encode()); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("job: %+v, %v\nwant %+v", got, err, s)
	}
	if got, err := DecodeEnd(e.ID, e.Encode()); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("ending: %+v, %v\nwant %+v", got, err, e)
	}
	if got, err := DecodeTries(s.ID, a.Encode(s.ID)); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("tries: %+v, %v\nwant %+v", got, err, a)
	}
	if got, err := DecodeKey("key.a.b", k.Encode("key.a.b")); err != nil || got != k {
		t.Errorf("key: %+v, %v\nwant %+v", got, err, k)
	}
	// A map has no order, so the record of the job is not always the same bytes.
	got, err := DecodeSchedule(r.Name, r.Encode())
	if err == nil {
		got.JobRecord = r.JobRecord
	}
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("schedule: %+v, %v\nwant %+v", got, err, r)
	}
	if got, err := DecodeTick("a", n.Encode("a")); err != nil || got != n {
		t.Errorf("tick: %+v, %v\nwant %+v", got, err, n)
	}
}

// unset lists the fields of a struct that have their zero value.
func unset(v reflect.Value, path string) []string {
	var found []string
	for i := range v.NumField() {
		f, name := v.Field(i), path+v.Type().Field(i).Name
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		switch {
		case f.IsZero():
			found = append(found, name)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			found = append(found, unset(f, name+".")...)
		}
	}
	return found
}

// recordKind is one of the kinds of records, of the job id or the schedule of
// that name.
type recordKind struct {
	name   string
	record []byte
	decode func(id string, b []byte) error
}

func recordKinds(id string) []recordKind {
	s, e, a := allOfJob(), allOfEnding(), allOfTries()
	s.ID, e.ID = id, id
	r, n := allOfSchedule(), allOfTick()
	r.Name = id
	return []recordKind{
		{"schedule", r.Encode(), func(id string, b []byte) error { _, err := DecodeSchedule(id, b); return err }},
		{"tick", n.Encode(id), func(id string, b []byte) error { _, err := DecodeTick(id, b); return err }},
		{"job", s.Encode(), func(id string, b []byte) error { _, err := DecodeJob(id, b); return err }},
		{"ending", e.Encode(), func(id string, b []byte) error { _, err := DecodeEnd(id, b); return err }},
		{"tries", a.Encode(id), func(id string, b []byte) error { _, err := DecodeTries(id, b); return err }},
		{"key", Key{ID: id, State: job.Done, Ended: stamp(1)}.Encode(id), func(id string, b []byte) error { _, err := DecodeKey(id, b); return err }},
	}
}

func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	id := anyID()
	for _, k := range recordKinds(id) {
		if err := k.decode(id, k.record); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		refused := func(what string, b []byte) {
			t.Helper()
			if err := k.decode(id, b); !errors.Is(err, job.ErrDamaged) {
				t.Errorf("%s with %s: %v, want errCorrupt", k.name, what, err)
			}
		}
		for i := range len(k.record) * 8 {
			b := slices.Clone(k.record)
			b[i/8] ^= 1 << (i % 8)
			refused("a flipped bit", b)
		}
		for n := range k.record {
			refused("its end cut off", k.record[:n:n])
		}
		refused("a byte more", append(slices.Clone(k.record), 0))
		refused("zeros for all", make([]byte, len(k.record)))
		if k.name == "key" {
			continue // it stands for a key, and names its job inside
		}
		if err := k.decode(anyID(), k.record); !errors.Is(err, job.ErrDamaged) {
			t.Errorf("%s of another job: %v, want errCorrupt", k.name, err)
		}
	}
}

// resealed gives a record with a body of one's own and the right checksum.
func resealed(id string, body []byte) []byte {
	w := newRecord(len(body))
	w.b = append(w.b, body...)
	return w.seal(id)
}

// many is a record's field, more often than any record has it.
func many(tag uint64, value []byte) []byte {
	var w recordWriter
	for range MostPairs + 1 {
		w.bytes(tag, value)
	}
	return w.b
}

// nested is a field that holds what inner writes.
func nested(tag uint64, inner func(*recordWriter)) []byte {
	var in, out recordWriter
	inner(&in)
	out.bytes(tag, in.b)
	return out.b
}

// number is a field that holds a number, 0 too.
func number(tag, v uint64) []byte {
	return nested(tag, func(w *recordWriter) { w.b = binary.AppendUvarint(nil, v) })
}

// TestStrangeRecords has records with a good checksum that no encoder writes.
func TestStrangeRecords(t *testing.T) {
	t.Parallel()
	id := anyID()
	var meta recordWriter
	for i := range MostPairs + 1 {
		meta.pair(tagMeta, string(binary.AppendUvarint(nil, uint64(i))), "")
	}
	kinds := map[string]recordKind{}
	for _, k := range recordKinds(id) {
		kinds[k.name] = k
	}
	for _, c := range []struct {
		what, kind string
		body       []byte
	}{
		{"too many keys of Meta", "job", meta.b},
		{"too many jobs of a chain", "job", nested(tagChain, func(w *recordWriter) { w.b = many(chainLink, linkFields(&job.Job{Queue: "q"})) })},
		{"a job of a chain that has a priority that is none", "job", nested(tagChain, func(w *recordWriter) { w.b = nested(chainLink, func(w *recordWriter) { w.number(linkPriority, 3) }) })},
		{"an outcome that is none to try after", "job", number(tagOn, 257)},
		{"half a number", "job", []byte{tagAttempts, 1, 0x80}},
		{"a number that is none", "job", []byte{tagAttempts, 0}},
		{"a number too large", "job", number(tagAttempts, 1<<63)},
		{"a negative limit of processors", "job", number(tagCPU, 1<<63|1<<62)},
		{"a pair cut off", "job", []byte{tagMeta, 1, 9}},
		{"a field longer than the record", "job", []byte{tagName, 200, 1, 'x'}},
		{"a tag cut off", "job", []byte{0x80}},
		{"too many lines", "ending", many(endLine, []byte{lineStream, 1, 'x'})},
		{"a priority that is none", "ending", number(endPriority, job.Priorities)},
		{"an outcome that is none", "ending", number(endOutcome, 256)},
		{"progress beyond the end", "ending", number(endProgress, 1<<62+1)},
		{"progress that is no number", "ending", number(endProgress, 0x7ff8<<48)},
		{"a failure with an outcome that is none", "ending", nested(endFailure, func(w *recordWriter) { w.number(failOutcome, 256) })},
		{"a broken line", "ending", nested(endLine, func(w *recordWriter) { w.b = []byte{lineText, 9} })},
		{"too many attempts", "tries", many(tryAttempt, []byte{attemptNode, 1, 'x'})},
		{"an attempt with an outcome that is none", "tries", nested(tryAttempt, func(w *recordWriter) { w.number(attemptOutcome, 256) })},
		{"no id", "key", nil},
		{"a short id", "key", []byte{keyID, 1, 'x'}},
	} {
		k, of := kinds[c.kind], id
		if c.kind == "key" {
			of = ""
		}
		if err := k.decode(of, resealed(of, c.body)); !errors.Is(err, job.ErrDamaged) {
			t.Errorf("%s with %s: %v, want errCorrupt", c.kind, c.what, err)
		}
	}
}

// TestLaterRecords has a field that a later version may add: it is skipped.
func TestLaterRecords(t *testing.T) {
	t.Parallel()
	id := anyID()
	for _, k := range recordKinds(id) {
		body := append(slices.Clone(k.record[head:]), 0xff, 0x7f, 2, 'h', 'i')
		of := id
		if k.name == "key" {
			of = ""
		}
		sealed := map[string]string{"schedule": CronSubjects + id, "tick": TickSubjects + id}[k.name]
		if err := k.decode(of, resealed(cmp.Or(sealed, of), body)); err != nil {
			t.Errorf("%s with an unknown field: %v, want it skipped", k.name, err)
		}
	}
}

// anyID returns an id that no other call has.
func anyID() string { return ulid.Make().String() }
