package record

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

func allOfBatch() *Batch {
	s := allOfJob()
	callback := func() *job.Job {
		j := s.Job
		j.Queue, j.Priority, j.Delay = "images", job.Low, time.Minute
		return &j
	}
	return &Batch{
		ID: fuzzID, Key: "order 17", State: job.BatchCanceled, Created: stamp(1), Total: 12, Then: callback(), Failed: callback(),
		meta: map[string]string{"k": "v", "": ""}, Begun: Spans{{0, 3}, {7, 12}}, There: Spans{{1, 2}},
		Ended: stamp(2), Count: [Fates]int{1, 2, 3, 4}, FirstFailed: anyID(), Owes: true, FailedDone: true, Seq: 5,
	}
}

func decodeBatchRecord(b []byte) (*Batch, error) {
	return DecodeBatch(engine.Message{Subject: BatchSubject(fuzzID), Data: b, Seq: 5})
}

func allOfChunk() *Chunk {
	c := new(Chunk)
	for i, f := range []Fate{FateOK, FateFailed, FateCanceled, FateLost} {
		c.Set(100*i, f)
	}
	return c
}

func TestBatchRecordsKeepAll(t *testing.T) {
	t.Parallel()
	r := allOfBatch()
	for _, field := range unset(reflect.ValueOf(*r), "") {
		t.Errorf("the test leaves %s unset", field)
	}
	if got, err := decodeBatchRecord(r.Encode()); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("batch: %+v, %v\nwant %+v", got, err, r)
	}
	c, subject := allOfChunk(), BitsSubject(fuzzID, 3, "run")
	if got, created, err := DecodeChunk(subject, c.Encode(subject, stamp(1))); err != nil || !reflect.DeepEqual(got, c) || !created.Equal(stamp(1)) {
		t.Errorf("chunk: %+v of %v, %v\nwant %+v", got, created, err, c)
	}
	if id, n, run, ok := ParseBits(subject); !ok || id != fuzzID || n != 3 || run != "run" {
		t.Errorf("subject %s: %s, %d, %s, %t", subject, id, n, run, ok)
	}
	for _, bad := range []string{"", "set.bend.a.b.c", "set.bend.a.-1.c", "set.bend.a.99999.c", "set.batch.a"} {
		if _, _, _, ok := ParseBits(bad); ok {
			t.Errorf("subject %q was taken for one of bits", bad)
		}
	}
	small := &Batch{ID: fuzzID, Seq: 5}
	if got, err := decodeBatchRecord(small.Encode()); err != nil || !reflect.DeepEqual(got, small) {
		t.Errorf("batch: %+v, %v\nwant %+v", got, err, small)
	}
}

func FuzzBatch(f *testing.F) {
	small := &Batch{ID: fuzzID, Then: &job.Job{Queue: "q"}}
	fuzzRecord(f, BatchSubject(fuzzID), [][]byte{allOfBatch().Encode(), small.Encode()}, decodeBatchRecord, (*Batch).Encode,
		func(t *testing.T, r *Batch) {
			t.Helper()
			if r.Begun.End() > job.MostMembers || r.Total > job.MostMembers || r.State > job.BatchCanceled {
				t.Fatalf("%+v is no batch", r)
			}
			_ = r.Info()
		})
}

func FuzzChunk(f *testing.F) {
	subject := BitsSubject(fuzzID, 0, "run")
	type both struct {
		c       *Chunk
		created time.Time
	}
	fuzzRecord(f, subject, [][]byte{allOfChunk().Encode(subject, stamp(1)), new(Chunk).Encode(subject, stamp(2))},
		func(b []byte) (both, error) {
			c, created, err := DecodeChunk(subject, b)
			return both{c, created}, err
		},
		func(b both) []byte { return b.c.Encode(subject, b.created) },
		func(t *testing.T, b both) {
			t.Helper()
			new(Chunk).NewIn(b.c, func(i int, f Fate) {
				if i < 0 || i >= ChunkMembers || f >= Fates {
					t.Fatalf("member %d ended %d", i, f)
				}
			})
		})
}

// TestStrangeBatches has records with a good checksum that no encoder writes.
func TestStrangeBatches(t *testing.T) {
	t.Parallel()
	subject := BitsSubject(fuzzID, 0, "run")
	for what, body := range map[string][]byte{
		"a state that is none": number(batchState, 4),
		"too many members":     number(batchTotal, job.MostMembers+1),
		"half a span":          nested(batchBegun, func(w *recordWriter) { w.b = []byte{1} }),
		"a span too far":       nested(batchThere, func(w *recordWriter) { w.b = []byte{0, 0xc0, 0x84, 0x3d, 1, 1} }),
		"a callback cut off":   nested(batchThen, func(w *recordWriter) { w.b = []byte{linkJob, 9} }),
		"a chain that is too long": nested(batchFailed, func(w *recordWriter) {
			w.b = nested(linkChain, func(w *recordWriter) { w.b = many(chainLink, linkFields(&job.Job{Queue: "q"})) })
		}),
	} {
		if _, err := decodeBatchRecord(resealed(BatchSubject(fuzzID), body)); !errors.Is(err, job.ErrDamaged) {
			t.Errorf("batch with %s: %v, want errCorrupt", what, err)
		}
	}
	for what, size := range map[string]int{"half a word": 12, "too many words": ChunkMembers/8 + 8} {
		body := nested(bitsEnded, func(w *recordWriter) { w.b = make([]byte, size) })
		if _, _, err := DecodeChunk(subject, resealed(subject, body)); !errors.Is(err, job.ErrDamaged) {
			t.Errorf("chunk with %s: %v, want errCorrupt", what, err)
		}
	}
}

// TestSpans compares a set of spans with a set of numbers.
func TestSpans(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s Spans
		var want [40]bool
		for range rnd.IntN(8) {
			from := rnd.IntN(40)
			to := from + rnd.IntN(40-from)
			s.Add(from, to)
			for i := from; i < to; i++ {
				want[i] = true
			}
		}
		total, n, end := rnd.IntN(40), 0, 0
		gaps := s.Missing(total)
		for i, in := range want {
			if in {
				n, end = n+1, i+1
			}
			if s.Has(i) != in || gaps.Has(i) != (!in && i < total) {
				t.Fatalf("%v, of which %v is missing before %d: wrong about %d", s, gaps, total, i)
			}
		}
		if s.Count() != n || s.End() != end {
			t.Fatalf("%v has %d numbers before %d, want %d before %d", s, s.Count(), s.End(), n, end)
		}
		if !slices.IsSortedFunc(s, func(a, b Span) int { return a.To - b.From }) {
			t.Fatalf("%v is not in order, or touches", s)
		}
	}
	var s Spans
	for i := range 10 {
		s.Add(3*i, 3*i+1+i%2)
	}
	if got, want := s.String(), "0, 3 to 4, 6, 9 to 10, 12, 15 to 16, 18, 21 to 22, and 2 more ranges"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
