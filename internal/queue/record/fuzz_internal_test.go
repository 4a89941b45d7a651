package record

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

const fuzzID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// fuzzRecord gives decode what the fuzzer makes up: as it is, and with a good
// checksum, so that the fields are reached. What is decoded then must be the same
// after another way through the store.
func fuzzRecord[T any](f *testing.F, id string, seeds [][]byte, decode func([]byte) (T, error), encode func(T) []byte, look func(*testing.T, T)) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s[head:])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decode(body); err != nil && !errors.Is(err, job.ErrDamaged) {
			t.Fatalf("%v, want errCorrupt", err)
		}
		first, err := decode(resealed(id, body))
		if err != nil {
			if !errors.Is(err, job.ErrDamaged) {
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
			if _, err := decode(record); !errors.Is(err, job.ErrDamaged) {
				t.Fatalf("bit %d flipped: %v, want errCorrupt", i, err)
			}
			record[i/8] ^= 1 << (i % 8)
		}
	})
}

func FuzzJob(f *testing.F) {
	all, small := allOfJob(), &Job{ID: fuzzID, Job: job.Job{Name: "a", Retry: job.Retry{On: []bullpen.Outcome{}}}}
	all.ID = fuzzID
	fuzzRecord(f, fuzzID, [][]byte{all.Encode(), small.Encode()},
		func(b []byte) (*Job, error) { return DecodeJob(fuzzID, b) }, (*Job).Encode,
		func(t *testing.T, s *Job) {
			t.Helper()
			if len(s.Job.Meta) > MostPairs || len(s.Job.Retry.On) > 256 {
				t.Fatalf("%d keys and %d outcomes are beyond all bounds", len(s.Job.Meta), len(s.Job.Retry.On))
			}
		})
}

func FuzzEnding(f *testing.F) {
	all, small := allOfEnding(), &End{ID: fuzzID}
	all.ID = fuzzID
	fuzzRecord(f, fuzzID, [][]byte{all.Encode(), small.Encode()},
		func(b []byte) (*End, error) { return DecodeEnd(fuzzID, b) }, (*End).Encode,
		func(t *testing.T, e *End) {
			t.Helper()
			if len(e.Lines) > MostPairs || len(e.Tries.History) > MostPairs {
				t.Fatalf("%d lines and %d attempts are beyond all bounds", len(e.Lines), len(e.Tries.History))
			}
			_ = e.Info().Err
		})
}

func FuzzTries(f *testing.F) {
	all := allOfTries()
	fuzzRecord(f, fuzzID, [][]byte{all.Encode(fuzzID)},
		func(b []byte) (Tries, error) { return DecodeTries(fuzzID, b) }, func(a Tries) []byte { return a.Encode(fuzzID) },
		func(t *testing.T, a Tries) {
			t.Helper()
			if len(a.History) > MostPairs {
				t.Fatalf("%d attempts are beyond all bounds", len(a.History))
			}
		})
}

func FuzzKey(f *testing.F) {
	const subject = "key.default.0123"
	fuzzRecord(f, subject, [][]byte{Key{ID: fuzzID, State: job.Dead, Ended: stamp(1)}.Encode(subject)},
		func(b []byte) (Key, error) { return DecodeKey(subject, b) },
		func(k Key) []byte { return k.Encode(subject) }, func(t *testing.T, k Key) {
			t.Helper()
			if len(k.ID) != len(fuzzID) || k.State > job.Canceled {
				t.Fatalf("%+v is no key", k)
			}
		})
}

func FuzzScheduleRecord(f *testing.F) {
	all := allOfSchedule()
	all.Job.Meta = nil // a map has no order
	fuzzRecord(f, CronSubjects+ScheduleToken(all.Name), [][]byte{all.Encode()},
		func(b []byte) (*Schedule, error) { return DecodeSchedule(all.Name, b) },
		func(r *Schedule) []byte {
			if len(r.Job.Meta) > 1 {
				r.Job.Meta = nil
			}
			return r.Encode()
		}, func(t *testing.T, r *Schedule) {
			t.Helper()
			if r.Name != all.Name || r.Missed >= job.MissedRules || r.Overlap >= job.OverlapRules || r.Job.Priority >= job.Priorities {
				t.Fatalf("%+v is no schedule", r)
			}
		})
}

func FuzzTickRecord(f *testing.F) {
	const name = "a.b"
	all := allOfTick()
	fuzzRecord(f, TickSubjects+ScheduleToken(name), [][]byte{all.Encode(name)},
		func(b []byte) (Tick, error) { return DecodeTick(name, b) },
		func(r Tick) []byte { return r.Encode(name) }, func(t *testing.T, r Tick) {
			t.Helper()
			if after := r.After(stamp(1)); after.Before(stamp(1)) {
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
		s.Job.Limits.CPU = rnd.ExpFloat64()
		s.Job.Payload = make([]byte, 1+rnd.IntN(100))
		e.Progress = rnd.Float64()
		for _, v := range []any{&s.Job, &s.Job.Limits, &s.Job.Retry, &e.Stats, e.Failure, &e.Lines[0], &a.History[0]} {
			forget(rnd, reflect.ValueOf(v).Elem())
		}
		s.Job.Queue, s.Job.Priority, s.Job.Delay = "", 0, 0
		for i := range e.Lines {
			e.Lines[i].Level = rnd.IntN(32) - 16
		}
		e.Tries = a
		if a.Started == 0 && a.Lost == 0 && len(a.History) == 0 {
			e.Tries = Tries{} // nothing ran
		}
		if got, err := DecodeJob(s.ID, s.Encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("job: %+v, %v\nwant %+v", got, err, s)
		}
		if got, err := DecodeEnd(e.ID, e.Encode()); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("ending: %+v, %v\nwant %+v", got, err, e)
		}
		if got, err := DecodeTries(s.ID, a.Encode(s.ID)); err != nil || !reflect.DeepEqual(got, a) {
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
	for name, j := range map[string]job.Job{
		"nothing":              {},
		"the largest":          {Limits: bullpen.Limits{Timeout: 1<<63 - 1, Memory: 1<<63 - 1, CPU: 1e300, Output: 1<<31 - 1}},
		"the smallest":         {Limits: bullpen.Limits{Timeout: 1, Memory: 1, CPU: 5e-324, Output: 1}},
		"no outcome to try on": {Retry: job.Retry{On: []bullpen.Outcome{}}},
		"no text":              {Name: "\xff\x00", Key: "\n", Meta: map[string]string{"\x00": "\xff"}},
	} {
		s := &Job{ID: anyID(), Job: j}
		if got, err := DecodeJob(s.ID, s.Encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, s)
		}
	}
	for _, when := range []time.Time{time.UnixMicro(1), time.UnixMicro(1 << 61)} {
		s := &Job{ID: anyID(), Job: job.Job{Deadline: when}}
		if got, err := DecodeJob(s.ID, s.Encode()); err != nil || !got.Job.Deadline.Equal(when) {
			t.Errorf("deadline %v: %v, %v", when, got.Job.Deadline, err)
		}
	}
}
