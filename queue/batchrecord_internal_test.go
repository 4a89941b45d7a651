package queue

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func allOfBatch() *batchRecord {
	s := allOfJob()
	callback := func() *Job {
		j := s.job
		j.Queue, j.Priority, j.Delay = "images", Low, time.Minute
		return &j
	}
	return &batchRecord{
		id: fuzzID, key: "order 17", state: BatchCanceled, created: stamp(1), total: 12, then: callback(), failed: callback(),
		meta: map[string]string{"k": "v", "": ""}, begun: spans{{0, 3}, {7, 12}}, there: spans{{1, 2}},
		ended: stamp(2), count: [fates]int{1, 2, 3, 4}, firstFailed: newID(), owes: true, failedDone: true, seq: 5,
	}
}

func decodeBatchRecord(b []byte) (*batchRecord, error) {
	return decodeBatch(engine.Message{Subject: batchSubject(fuzzID), Data: b, Seq: 5})
}

func allOfChunk() *chunk {
	c := new(chunk)
	for i, f := range []fate{fateOK, fateFailed, fateCanceled, fateLost} {
		c.set(100*i, f)
	}
	return c
}

func TestBatchRecordsKeepAll(t *testing.T) {
	t.Parallel()
	r := allOfBatch()
	for _, field := range unset(reflect.ValueOf(*r), "") {
		t.Errorf("the test leaves %s unset", field)
	}
	if got, err := decodeBatchRecord(r.encode()); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("batch: %+v, %v\nwant %+v", got, err, r)
	}
	c, subject := allOfChunk(), bitsSubject(fuzzID, 3, "run")
	if got, created, err := decodeChunk(subject, c.encode(subject, stamp(1))); err != nil || !reflect.DeepEqual(got, c) || !created.Equal(stamp(1)) {
		t.Errorf("chunk: %+v of %v, %v\nwant %+v", got, created, err, c)
	}
	if id, n, run, ok := parseBits(subject); !ok || id != fuzzID || n != 3 || run != "run" {
		t.Errorf("subject %s: %s, %d, %s, %t", subject, id, n, run, ok)
	}
	for _, bad := range []string{"", "set.bend.a.b.c", "set.bend.a.-1.c", "set.bend.a.99999.c", "set.batch.a"} {
		if _, _, _, ok := parseBits(bad); ok {
			t.Errorf("subject %q was taken for one of bits", bad)
		}
	}
	small := &batchRecord{id: fuzzID, seq: 5}
	if got, err := decodeBatchRecord(small.encode()); err != nil || !reflect.DeepEqual(got, small) {
		t.Errorf("batch: %+v, %v\nwant %+v", got, err, small)
	}
}

func FuzzBatch(f *testing.F) {
	small := &batchRecord{id: fuzzID, then: &Job{Queue: "q"}}
	fuzzRecord(f, batchSubject(fuzzID), [][]byte{allOfBatch().encode(), small.encode()}, decodeBatchRecord, (*batchRecord).encode,
		func(t *testing.T, r *batchRecord) {
			t.Helper()
			if r.begun.end() > MostMembers || r.total > MostMembers || r.state > BatchCanceled {
				t.Fatalf("%+v is no batch", r)
			}
			_ = r.info()
		})
}

func FuzzChunk(f *testing.F) {
	subject := bitsSubject(fuzzID, 0, "run")
	type both struct {
		c       *chunk
		created time.Time
	}
	fuzzRecord(f, subject, [][]byte{allOfChunk().encode(subject, stamp(1)), new(chunk).encode(subject, stamp(2))},
		func(b []byte) (both, error) {
			c, created, err := decodeChunk(subject, b)
			return both{c, created}, err
		},
		func(b both) []byte { return b.c.encode(subject, b.created) },
		func(t *testing.T, b both) {
			t.Helper()
			new(chunk).newIn(b.c, func(i int, f fate) {
				if i < 0 || i >= chunkMembers || f >= fates {
					t.Fatalf("member %d ended %d", i, f)
				}
			})
		})
}

// TestStrangeBatches has records with a good checksum that no encoder writes.
func TestStrangeBatches(t *testing.T) {
	t.Parallel()
	subject := bitsSubject(fuzzID, 0, "run")
	for what, body := range map[string][]byte{
		"a state that is none": number(batchState, 4),
		"too many members":     number(batchTotal, MostMembers+1),
		"half a span":          nested(batchBegun, func(w *recordWriter) { w.b = []byte{1} }),
		"a span too far":       nested(batchThere, func(w *recordWriter) { w.b = []byte{0, 0xc0, 0x84, 0x3d, 1, 1} }),
		"a callback cut off":   nested(batchThen, func(w *recordWriter) { w.b = []byte{linkJob, 9} }),
		"a chain that is too long": nested(batchFailed, func(w *recordWriter) {
			w.b = nested(linkChain, func(w *recordWriter) { w.b = many(chainLink, linkFields(&Job{Queue: "q"})) })
		}),
	} {
		if _, err := decodeBatchRecord(resealed(batchSubject(fuzzID), body)); !errors.Is(err, errCorrupt) {
			t.Errorf("batch with %s: %v, want errCorrupt", what, err)
		}
	}
	for what, size := range map[string]int{"half a word": 12, "too many words": chunkMembers/8 + 8} {
		body := nested(bitsEnded, func(w *recordWriter) { w.b = make([]byte, size) })
		if _, _, err := decodeChunk(subject, resealed(subject, body)); !errors.Is(err, errCorrupt) {
			t.Errorf("chunk with %s: %v, want errCorrupt", what, err)
		}
	}
}

// TestSpans compares a set of spans with a set of numbers.
func TestSpans(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s spans
		var want [40]bool
		for range rnd.IntN(8) {
			from := rnd.IntN(40)
			to := from + rnd.IntN(40-from)
			s.add(from, to)
			for i := from; i < to; i++ {
				want[i] = true
			}
		}
		total, n, end := rnd.IntN(40), 0, 0
		gaps := s.missing(total)
		for i, in := range want {
			if in {
				n, end = n+1, i+1
			}
			if s.has(i) != in || gaps.has(i) != (!in && i < total) {
				t.Fatalf("%v, of which %v is missing before %d: wrong about %d", s, gaps, total, i)
			}
		}
		if s.count() != n || s.end() != end {
			t.Fatalf("%v has %d numbers before %d, want %d before %d", s, s.count(), s.end(), n, end)
		}
		if !slices.IsSortedFunc(s, func(a, b span) int { return a.to - b.from }) {
			t.Fatalf("%v is not in order, or touches", s)
		}
	}
	var s spans
	for i := range 10 {
		s.add(3*i, 3*i+1+i%2)
	}
	if got, want := s.String(), "0, 3 to 4, 6, 9 to 10, 12, 15 to 16, 18, 21 to 22, and 2 more ranges"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
