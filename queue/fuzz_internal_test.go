package queue

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

const fuzzID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// fuzzRecord gives decode what the fuzzer makes up: as it is, and with a good
// checksum, so that the fields are reached. What is decoded then must be the same
// after another way through the store.
func fuzzRecord[T any](f *testing.F, id string, seeds [][]byte, decode func([]byte) (T, error), encode func(T) []byte, look func(*testing.T, T)) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s[recordHead:])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decode(body); err != nil && !errors.Is(err, errCorrupt) {
			t.Fatalf("%v, want errCorrupt", err)
		}
		first, err := decode(resealed(id, body))
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Fatalf("%v, want errCorrupt", err)
			}
			return
		}
		look(t, first)
		// The first way through makes it what an encoder writes.
		once, err := decode(encode(first))
		if err != nil {
			t.Fatalf("what was decoded cannot be stored again: %v\n%+v", err, first)
		}
		record := encode(once)
		twice, err := decode(slices.Clone(record))
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Fatalf("%+v, %v\nwant %+v", twice, err, once)
		}
		for i := range min(len(record)*8, 256) {
			record[i/8] ^= 1 << (i % 8)
			if _, err := decode(record); !errors.Is(err, errCorrupt) {
				t.Fatalf("bit %d flipped: %v, want errCorrupt", i, err)
			}
			record[i/8] ^= 1 << (i % 8)
		}
	})
}

func FuzzJob(f *testing.F) {
	all, small := allOfJob(), &stored{id: fuzzID, job: Job{Name: "a", Retry: Retry{On: []bullpen.Outcome{}}}}
	all.id = fuzzID
	fuzzRecord(f, fuzzID, [][]byte{all.encode(), small.encode()},
		func(b []byte) (*stored, error) { return decodeJob(fuzzID, b) }, (*stored).encode,
		func(t *testing.T, s *stored) {
			t.Helper()
			if len(s.job.Meta) > mostPairs || len(s.job.Retry.On) > 256 {
				t.Fatalf("%d keys and %d outcomes are beyond all bounds", len(s.job.Meta), len(s.job.Retry.On))
			}
		})
}

func FuzzEnding(f *testing.F) {
	all, small := allOfEnding(), &ending{id: fuzzID}
	all.id = fuzzID
	fuzzRecord(f, fuzzID, [][]byte{all.encode(), small.encode()},
		func(b []byte) (*ending, error) { return decodeEnding(fuzzID, b) }, (*ending).encode,
		func(t *testing.T, e *ending) {
			t.Helper()
			if len(e.lines) > mostPairs || len(e.tries.history) > mostPairs {
				t.Fatalf("%d lines and %d attempts are beyond all bounds", len(e.lines), len(e.tries.history))
			}
			_ = e.info().Err
		})
}

func FuzzTries(f *testing.F) {
	all := allOfTries()
	fuzzRecord(f, fuzzID, [][]byte{all.encode(fuzzID)},
		func(b []byte) (tries, error) { return decodeTries(fuzzID, b) }, func(a tries) []byte { return a.encode(fuzzID) },
		func(t *testing.T, a tries) {
			t.Helper()
			if len(a.history) > mostPairs {
				t.Fatalf("%d attempts are beyond all bounds", len(a.history))
			}
		})
}

func FuzzKey(f *testing.F) {
	const subject = "key.default.0123"
	fuzzRecord(f, subject, [][]byte{keyRecord{id: fuzzID, state: Dead, ended: stamp(1)}.encode(subject)},
		func(b []byte) (keyRecord, error) { return decodeKey(subject, b) },
		func(k keyRecord) []byte { return k.encode(subject) }, func(t *testing.T, k keyRecord) {
			t.Helper()
			if len(k.id) != len(fuzzID) || k.state > Canceled {
				t.Fatalf("%+v is no key", k)
			}
		})
}

func FuzzScheduleRecord(f *testing.F) {
	all := allOfSchedule()
	all.Job.Meta = nil // a map has no order
	fuzzRecord(f, cronSubjects+scheduleToken(all.Name), [][]byte{all.encode()},
		func(b []byte) (*scheduleRecord, error) { return decodeSchedule(all.Name, b) },
		func(r *scheduleRecord) []byte {
			if len(r.Job.Meta) > 1 {
				r.Job.Meta = nil
			}
			return r.encode()
		}, func(t *testing.T, r *scheduleRecord) {
			t.Helper()
			if r.Name != all.Name || r.Missed >= missedRules || r.Overlap >= overlapRules || r.Job.Priority >= priorities {
				t.Fatalf("%+v is no schedule", r)
			}
		})
}

func FuzzTickRecord(f *testing.F) {
	const name = "a.b"
	all := allOfTick()
	fuzzRecord(f, tickSubjects+scheduleToken(name), [][]byte{all.encode(name)},
		func(b []byte) (tickRecord, error) { return decodeTick(name, b) },
		func(r tickRecord) []byte { return r.encode(name) }, func(t *testing.T, r tickRecord) {
			t.Helper()
			if after := r.after(stamp(1)); after.Before(stamp(1)) {
				t.Fatalf("ticks after %v count, before the rule was put", after)
			}
		})
}

// TestRecordsOfChance has jobs, endings and attempts with any of their fields.
func TestRecordsOfChance(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		s, e, a := allOfJob(), allOfEnding(), allOfTries()
		s.job.Limits.CPU = rnd.ExpFloat64()
		s.job.Payload = make([]byte, 1+rnd.IntN(100))
		e.progress = rnd.Float64()
		for _, v := range []any{s, &s.job, &s.job.Limits, &s.job.Retry, e, &e.stats, e.failure, &e.lines[0], &a, &a.history[0]} {
			forget(rnd, reflect.ValueOf(v).Elem())
		}
		s.job.Queue, s.job.Priority, s.job.Delay = "", 0, 0
		for i := range e.lines {
			e.lines[i].Level = rnd.IntN(32) - 16
		}
		e.tries = a
		if a.started == 0 && a.lost == 0 && len(a.history) == 0 {
			e.tries = tries{} // nothing ran
		}
		if got, err := decodeJob(s.id, s.encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("job: %+v, %v\nwant %+v", got, err, s)
		}
		if got, err := decodeEnding(e.id, e.encode()); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("ending: %+v, %v\nwant %+v", got, err, e)
		}
		if got, err := decodeTries(s.id, a.encode(s.id)); err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("tries: %+v, %v\nwant %+v", got, err, a)
		}
	}
}

// forget sets some exported fields of a struct to zero.
func forget(rnd *rand.Rand, v reflect.Value) {
	for _, f := range v.Fields() {
		if f.CanSet() && rnd.IntN(2) == 0 {
			f.SetZero()
		}
	}
}

// TestTheHardOnes has values at the ends of what a field holds.
func TestTheHardOnes(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]Job{
		"nothing":              {},
		"the largest":          {Limits: bullpen.Limits{Timeout: 1<<63 - 1, Memory: 1<<63 - 1, CPU: 1e300, Output: 1<<31 - 1}},
		"the smallest":         {Limits: bullpen.Limits{Timeout: 1, Memory: 1, CPU: 5e-324, Output: 1}},
		"no outcome to try on": {Retry: Retry{On: []bullpen.Outcome{}}},
		"no text":              {Name: "\xff\x00", Key: "\n", Meta: map[string]string{"\x00": "\xff"}},
	} {
		s := &stored{id: newID(), job: j}
		if got, err := decodeJob(s.id, s.encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, s)
		}
	}
	for _, when := range []time.Time{time.UnixMicro(1), time.UnixMicro(1 << 61)} {
		s := &stored{id: newID(), job: Job{Deadline: when}}
		if got, err := decodeJob(s.id, s.encode()); err != nil || !got.job.Deadline.Equal(when) {
			t.Errorf("deadline %v: %v, %v", when, got.job.Deadline, err)
		}
	}
}
