package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// slow is an engine that takes its time for each read of one record.
type slow struct {
	engine.Engine

	each time.Duration
}

func (s slow) Get(ctx context.Context, stream engine.Stream, subject string) (engine.Message, error) {
	<-time.After(s.each)
	return s.Engine.Get(ctx, stream, subject)
}

// TestPagesOfASlowStore has a store that takes its time for each job: a page ends soon
// after its time is over, and no job is left out.
func TestPagesOfASlowStore(t *testing.T) {
	t.Parallel()
	for _, f := range []job.Filter{{}, {Newest: true}, {States: []job.State{}}, {States: []job.State{job.Scheduled}}} {
		f.Limit = 1000
		synctest.Test(t, func(t *testing.T) {
			const each, n = 20 * time.Millisecond, 100
			e := memoryEngine(t)
			q, err := New(t.Context(), e, Config{Node: "n", MaxPayload: 1 << 10, MaxResult: 1 << 10})
			if err != nil {
				t.Fatal(err)
			}
			defer q.Shut()
			all := make([]job.Job, n)
			for i := range all {
				all[i] = job.Job{Queue: "main", Name: "echo", At: time.Now().Add(100 * time.Hour)}
			}
			refs, err := q.EnqueueAll(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			for _, r := range refs {
				ids[r.ID] = true
			}
			q.Engine = slow{e, each}
			const most = pageTime + 4*each*pageLeast // a job takes up to four reads
			for calls := 0; f.After != "" || calls == 0; calls++ {
				begun := time.Now()
				p, err := q.List(t.Context(), f)
				if took := time.Since(begun); err != nil || took > most || calls > n {
					t.Fatalf("page %d of %+v takes %v, %v", calls, f, took, err)
				}
				for i := range p.Jobs {
					if !ids[p.Jobs[i].ID] {
						t.Fatalf("%s is there twice, or was never", p.Jobs[i].ID)
					}
					delete(ids, p.Jobs[i].ID)
				}
				f.After = p.Next
			}
			if len(ids) > 0 {
				t.Errorf("%+v: %d jobs are missing", f, len(ids))
			}
		})
	}
}

// TestCursors wants what is no cursor to be refused, and what List returned to be taken.
func TestCursors(t *testing.T) {
	t.Parallel()
	q, err := New(t.Context(), memoryEngine(t), Config{Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Shut()
	for text, good := range map[string]bool{
		"": true, "0.0": true, "3.17": true, "1.999999999999999999": true, "n.1.2.3": true, "n.1.1.1": true,
		"4.0": false, "1": false, "1.": false, ".1": false, "-1.1": false, "1.1.1": false, "n.1.2": false, "n.1.2.3.4": false, "1.9999999999999999999": false, "n.x.1.1": false,
	} {
		_, err := q.List(t.Context(), job.Filter{After: text})
		if (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
