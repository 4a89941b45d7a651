package jet

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// TestOldestOfMany wants the oldest job reported of a consumer with many, whichever has
// gone from the front, and whatever else lies there.
func TestOldestOfMany(t *testing.T) {
	e := bare(t)
	post := engine.Consumer{Queue: "post", Priority: "low"}
	putJobs(t, e, post, 3)
	putJobs(t, e, mail, manyJobs+5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := e.Scan(ctx, engine.Jobs, "job.>", 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []int{0, 3, 4, 1, 2, 5} { // of both, from the front and behind it
		if err := e.Delete(ctx, engine.Jobs, all[gone].Seq); err != nil {
			t.Fatal(err)
		}
		all[gone].Seq = 0
		for _, c := range []engine.Consumer{mail, post} {
			var want time.Time
			for _, m := range all {
				if m.Seq != 0 && want.IsZero() && engine.Matches(filter(c), m.Subject) {
					want = m.Time
				}
			}
			if d, err := e.Depth(ctx, c); err != nil || !d.Oldest.Equal(want) {
				t.Errorf("after message %d went, Depth of %v = %+v, %v, want the oldest of %v", gone, c, d, err, want)
			}
		}
	}
}

// putJobs puts n jobs in order.
func putJobs(tb testing.TB, e *Engine, c engine.Consumer, n int) {
	tb.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		e.Put(engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(c, jobID(uint64(i))), Data: make([]byte, 100)}, func(_ uint64, err error) {
			if err != nil {
				tb.Error(err)
			}
			all.Done()
		})
	}
	all.Wait()
}
