package jobs

import (
	"errors"
	"sync"
	"testing"

	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

func TestWaiters(t *testing.T) {
	t.Parallel()
	var w waiters
	cs := make([]chan waited, 6)
	for i := range cs {
		cs[i] = make(chan waited, 1)
		w.add([]string{"a", "a", "a", "b", "c", "c"}[i], cs[i])
	}
	w.remove("a", cs[1])
	w.remove("a", cs[1])
	w.remove("x", cs[0])
	w.remove("b", cs[3])
	if got := w.take("a"); len(got) != 2 || got[0] != (chan<- waited)(cs[0]) || got[1] != (chan<- waited)(cs[2]) {
		t.Errorf("%v wait for a, want the first and the third", got)
	}
	if got := w.take("a"); got != nil {
		t.Errorf("%v wait for a that was taken", got)
	}
	if len(w.ByID) != 1 {
		t.Errorf("%d ids are waited for, want c alone", len(w.ByID))
	}
	w.failAll(job.ErrClosed)
	late := make(chan waited, 1)
	w.add("d", late)
	for i, c := range []chan waited{cs[4], cs[5], late} {
		if got := <-c; !errors.Is(got.err, job.ErrClosed) {
			t.Errorf("waiter %d hears %+v", i, got)
		}
	}
	w.remove("c", cs[4])
}

// TestWaitersHammer has many wait for few ids while these end.
func TestWaitersHammer(t *testing.T) {
	t.Parallel()
	q := &Jobs{Engine: memoryEngine(t), Above: above{Ended: func(*record.End) {}}}
	var wg sync.WaitGroup
	ids := []string{newID(), newID()}
	for n := range 8 {
		wg.Go(func() {
			id := ids[n%2]
			for range 500 {
				c := make(chan waited, 1)
				q.Waits.add(id, c)
				if n < 4 {
					q.Announce(&record.End{ID: id})
					<-c // by this announcement or another
				}
				q.Waits.remove(id, c)
			}
		})
	}
	wg.Wait()
	if len(q.Waits.ByID) != 0 {
		t.Errorf("%d ids are left", len(q.Waits.ByID))
	}
}
