package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
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
	if len(w.byID) != 1 {
		t.Errorf("%d ids are waited for, want c alone", len(w.byID))
	}
	w.failAll(ErrClosed)
	late := make(chan waited, 1)
	w.add("d", late)
	for i, c := range []chan waited{cs[4], cs[5], late} {
		if got := <-c; !errors.Is(got.err, ErrClosed) {
			t.Errorf("waiter %d hears %+v", i, got)
		}
	}
	w.remove("c", cs[4])
}

// TestWaitersHammer has many wait for few ids while these end.
func TestWaitersHammer(t *testing.T) {
	t.Parallel()
	q := &Queue{engine: rawEngine(t, new(memory.Store))}
	var wg sync.WaitGroup
	ids := []string{newID(), newID()}
	for n := range 8 {
		wg.Go(func() {
			id := ids[n%2]
			for range 500 {
				c := make(chan waited, 1)
				q.waits.add(id, c)
				if n < 4 {
					q.announce(&ending{id: id})
					<-c // by this announcement or another
				}
				q.waits.remove(id, c)
			}
		})
	}
	wg.Wait()
	if len(q.waits.byID) != 0 {
		t.Errorf("%d ids are left", len(q.waits.byID))
	}
}

// TestWaitWithoutWord has a store that loses what nodes tell each other: who waits
// on another node learns of the end all the same.
func TestWaitWithoutWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		s.Inject(func(o memory.Operation) memory.Fault {
			if o.Name == "send" {
				return memory.Fault{Err: errDisk}
			}
			return memory.Fault{}
		})
		here, there := openOn(t, Config{Store: s}), openOn(t, Config{Store: s})
		start := time.Now()
		workOn(t, there, newTeam(1, func(context.Context, bullpen.Task) ([]byte, error) {
			<-time.After(time.Minute + time.Second)
			return []byte("x"), nil
		}), WorkConfig{})
		_, r, err := here.Run(t.Context(), Job{Name: "a"})
		if took := time.Since(start); err != nil || string(r.Payload) != "x" || took > time.Minute+time.Second+askAgain {
			t.Errorf("%q, %v after %v, want the result within %v of its end", r.Payload, err, took, askAgain)
		}
	})
}

// TestWaitGivesUp has waits that end before the job does.
func TestWaitGivesUp(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := openOn(t, Config{Store: &memory.Store{Shared: shared}})
			cause := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
			defer cancel()
			ref, _, err := q.Run(ctx, Job{Name: "a"})
			if !errors.Is(err, cause) || ref.ID == "" {
				t.Errorf("Run: %+v, %v, want the job and why it was not waited for", ref, err)
			}
			if _, err := q.Wait(ctx, ref.ID); !errors.Is(err, cause) {
				t.Errorf("Wait: %v", err)
			}
			for _, id := range []string{newID(), "", "x"} {
				if _, err := q.Wait(t.Context(), id); !errors.Is(err, ErrNotFound) {
					t.Errorf("Wait for %q: %v", id, err)
				}
			}
			if len(q.waits.byID) != 0 {
				t.Errorf("%d ids are still waited for", len(q.waits.byID))
			}
			ended := make(chan error, 1)
			go func() { // ends with the queue
				_, err := q.Wait(context.Background(), ref.ID)
				ended <- err
			}()
			synctest.Wait()
			if err := errors.Join(q.Close(), q.Close()); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Errorf("Wait at the end of the queue: %v", err)
			}
			if _, _, err := q.Run(t.Context(), Job{Name: "a"}); !errors.Is(err, ErrClosed) {
				t.Errorf("Run after the end of the queue: %v", err)
			}
		})
	}
}
