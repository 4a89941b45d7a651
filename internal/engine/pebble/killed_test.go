package pebble

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// A process that is killed leaves all that it has written, synced or not: of each job
// it is known whether somebody had it.
func TestKilled(t *testing.T) {
	t.Parallel()
	alone := engine.Consumer{Queue: "mail", Priority: "normal"}
	grouped := engine.Consumer{Queue: "mail", Priority: "normal", Grouped: true}
	mem := vfs.NewMem()
	e, err := Open(t.Context(), Config{Dir: "store", FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []engine.Consumer{alone, grouped} {
		for i := range 6 {
			if err := e.wait(engine.Put{Subject: engine.JobSubject(c, fmt.Sprint("job-", i)), New: true}); err != nil {
				t.Fatal(err)
			}
		}
		ds := takeSome(t, e, c, 5) // the sixth is in nobody's hands
		for i, d := range ds {
			if i != 1 {
				d.Begin()
			}
		}
		ds[2].Nak(0)
		ds[3].Ack()
		if err := e.Delete(t.Context(), engine.Jobs, ds[4].Seq); err != nil { // what was acknowledged before is removed with it
			t.Fatal(err)
		}
	}
	left := vfs.NewMem()
	if ok, err := vfs.Clone(mem, left, "store", "store"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer e.Close(context.Background())
	after, err := Open(t.Context(), Config{Dir: "store", FS: left})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close(context.Background())
	for c, orphans := range map[engine.Consumer][]bool{alone: {true, true, false, false}, grouped: {true, false, false, false}} {
		for i, d := range takeSome(t, after, c, 4) {
			if want := fmt.Sprint("job-", []int{0, 1, 2, 5}[i]); engine.LastToken(d.Subject) != want || !d.Old || d.Orphan != orphans[i] || d.Again != orphans[i] {
				t.Errorf("%+v: %s, Old %v, Again %v, Orphan %v was delivered, want %s, orphan %v", c, d.Subject, d.Old, d.Again, d.Orphan, want, orphans[i])
			}
		}
	}
}

// takeSome takes so many jobs.
func takeSome(t *testing.T, e engine.Engine, c engine.Consumer, n int) []engine.Delivery {
	t.Helper()
	got := make(chan engine.Delivery, n)
	taker, err := e.Take(c, func(d engine.Delivery) { got <- d }, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	defer taker.Stop()
	taker.Request(n, true)
	var all []engine.Delivery
	for range n {
		select {
		case d := <-got:
			all = append(all, d)
		case <-time.After(20 * time.Second):
			t.Fatalf("%d jobs came of %d", len(all), n)
		}
	}
	return all
}

// Many jobs wait behind the window of a consumer: they come in order, once, however
// many are put, removed and given back meanwhile.
func TestBeyondTheWindow(t *testing.T) {
	t.Parallel()
	c := engine.Consumer{Queue: "mail", Priority: "normal"}
	e, err := Open(t.Context(), Config{Dir: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	const n = 5 * window
	var seqs []uint64
	for i := range n {
		answer := make(chan uint64, 1)
		e.Put(engine.Put{Subject: engine.JobSubject(c, rising(i))}, func(seq uint64, _ error) { answer <- seq })
		seqs = append(seqs, <-answer)
	}
	gone := map[uint64]bool{}
	for i := 0; i < n; i += 7 {
		if err := e.Delete(t.Context(), engine.Jobs, seqs[i]); err != nil {
			t.Fatal(err)
		}
		gone[seqs[i]] = true
	}
	got := make(chan engine.Delivery, n)
	taker, err := e.Take(c, func(d engine.Delivery) { got <- d }, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	defer taker.Stop()
	for i, seq := range seqs {
		if i == n/2 { // while it reads, the last go
			for _, last := range seqs[n-10:] {
				if err := e.Delete(t.Context(), engine.Jobs, last); err != nil {
					t.Fatal(err)
				}
				gone[last] = true
			}
		}
		if gone[seq] {
			continue
		}
		taker.Request(1, true)
		d := <-got
		if d.Seq != seq {
			t.Fatalf("number %d is delivered, want %d", d.Seq, seq)
		}
		d.Ack()
		e.mu.Lock()
		if held := len(e.records); held > 4*window { // with those that are acknowledged and not removed yet
			t.Errorf("%d jobs are in memory", held)
		}
		e.mu.Unlock()
	}
	taker.Request(1, false)
	if d, err := e.Depth(t.Context(), c); err != nil || d.Waiting != 0 {
		t.Errorf("Depth = %+v, %v, want none waiting", d, err)
	}
}
