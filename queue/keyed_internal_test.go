package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// TestKeyWhoseWinnerDied has a caller that reserves a key and dies before its job
// is stored: the next one enqueues it under the first one's id, once.
func TestKeyWhoseWinnerDied(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"before its job was stored": false, "before it heard of its job": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &memory.Store{Shared: true}
			q := openOn(t, Config{Store: s})
			j := job.Job{Name: "a", Key: "order 17", Payload: []byte("x")}
			s.Inject(func(o memory.Operation) memory.Fault {
				if o.Name == "put" && o.Stream == engine.Jobs {
					return memory.Fault{Err: engine.ErrUnknown, Stored: stored}
				}
				return memory.Fault{}
			})
			first, err := q.Enqueue(t.Context(), j)
			if !errors.Is(err, job.ErrUnconfirmed) || first.ID == "" {
				t.Fatalf("%+v, %v, want an id that is not confirmed", first, err)
			}
			s.Inject(nil)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					ref, err := q.Enqueue(t.Context(), j)
					if err != nil || ref.ID != first.ID || !ref.Existing {
						t.Errorf("%+v, %v, want the job %s", ref, err, first.ID)
					}
				})
			}
			wg.Wait()
			if page, err := q.List(t.Context(), job.Filter{States: []job.State{job.Queued, job.Running}}); err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != first.ID {
				t.Errorf("%+v, %v, want the one job", page.Jobs, err)
			}
			workOn(t, q, newTeam(2, echoes), WorkConfig{})
			if r, err := q.Wait(t.Context(), first.ID); err != nil || string(r.Payload) != "x" {
				t.Errorf("%q, %v", r.Payload, err)
			}
		})
	}
}

// TestKeyRace has many callers with one key on two nodes: one job is there.
func TestKeyRace(t *testing.T) {
	t.Parallel()
	s := &memory.Store{Shared: true}
	nodes := []*Queue{openOn(t, Config{Store: s}), openOn(t, Config{Store: s})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, news := map[string]int{}, 0
	for n := range 32 {
		wg.Go(func() {
			ref, err := nodes[n%2].Enqueue(t.Context(), job.Job{Name: "a", Key: "one"})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[ref.ID]++
			if !ref.Existing {
				news++
			}
		})
	}
	wg.Wait()
	page, err := nodes[0].List(t.Context(), job.Filter{States: []job.State{job.Queued, job.Running}})
	if len(ids) != 1 || news != 1 || len(page.Jobs) != 1 || err != nil {
		t.Errorf("%v: %d callers enqueued it, and %d jobs are there, %v; want one", ids, news, len(page.Jobs), err)
	}
}

// TestKeyWindow has a key before and after the end of its job, over a restart.
func TestKeyWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		config := Config{Store: s, KeyWindow: time.Hour}
		q := openOn(t, config)
		j := job.Job{Name: "a", Key: "one"}
		first := enqueued(t, q, j)
		<-time.After(2 * time.Hour) // a window is after the end only
		if again := enqueued(t, q, j); again.ID != first.ID || !again.Existing || again.State != job.Queued {
			t.Errorf("while it waits: %+v, want %+v", again, first)
		}
		if other := enqueued(t, q, job.Job{Name: "a", Key: "one", Queue: "other"}); other.ID == first.ID || other.Existing {
			t.Errorf("the same key in another queue: %+v", other)
		}
		stop := workOn(t, q, newTeam(2, echoes), WorkConfig{})
		if _, err := q.Wait(t.Context(), first.ID); err != nil {
			t.Error(err)
		}
		if err := errors.Join(stop(), q.Close()); err != nil {
			t.Error(err)
		}
		q = openOn(t, config)
		<-time.After(time.Hour - time.Second)
		if again := enqueued(t, q, j); again.ID != first.ID || !again.Existing || again.State != job.Done {
			t.Errorf("within the window: %+v, want %+v, done", again, first)
		}
		<-time.After(2 * time.Second)
		if again := enqueued(t, q, j); again.ID == first.ID || again.Existing {
			t.Errorf("after the window: %+v, want another than %+v", again, first)
		}
	})
}

// TestDamagedKey has a key whose record cannot be read: it is reported, and the key is
// free.
func TestDamagedKey(t *testing.T) {
	t.Parallel()
	s := &memory.Store{Shared: true}
	q := openOn(t, Config{Store: s})
	feed := q.Events(10)
	data := record.Key{ID: newID(), State: job.Queued}.Encode(record.KeySubject("default", "one"))
	data[len(data)-1] ^= 1
	putRaw(t, rawEngine(t, s), engine.Put{Stream: engine.State, Subject: record.KeySubject("default", "one"), Data: data})
	first := enqueued(t, q, job.Job{Name: "a", Key: "one"})
	e := <-feed.C
	for e.Kind == job.Verified {
		e = <-feed.C
	}
	if e.Kind != job.Damaged || first.Existing {
		t.Errorf("%+v, and the event %v", first, e)
	}
	if again := enqueued(t, q, job.Job{Name: "a", Key: "one"}); again.ID != first.ID {
		t.Errorf("%+v, want %+v", again, first)
	}
}

// TestEnqueueAllEndsWithItsContext has a store that does not answer.
func TestEnqueueAllEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		q := openOn(t, Config{Store: s})
		s.Inject(func(o memory.Operation) memory.Fault {
			if o.Name == "put" {
				return memory.Fault{Delay: time.Hour}
			}
			return memory.Fault{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		refs, err := q.EnqueueAll(ctx, []job.Job{{Name: "a"}, {Name: "b"}})
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it returned after %v, and its context had ended after 1 s", took)
		}
		if !errors.Is(err, job.ErrUnconfirmed) || len(refs) != 2 {
			t.Errorf("%+v, %v, want two that are not confirmed", refs, err)
		}
		start = time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Enqueue(ctx, job.Job{Name: "c"}); !errors.Is(err, job.ErrUnconfirmed) || time.Since(start) != time.Second {
			t.Errorf("Enqueue: %v after %v, want not confirmed after 1 s", err, time.Since(start))
		}
		s.Inject(nil)
	})
}

// TestOutcomesOfKeys has the state of a key after each end.
func TestOutcomesOfKeys(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	workOn(t, q, newTeam(2, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		if task.Name == "bad" {
			return nil, bullpen.Fail("no", false)
		}
		return nil, nil
	}), WorkConfig{})
	for name, want := range map[string]job.State{"good": job.Done, "bad": job.Dead} {
		ref, _, err := q.Run(t.Context(), job.Job{Name: name, Key: name})
		var end *job.EndError
		if want == job.Dead && (!errors.As(err, &end) || end.Reason != job.Final) || want == job.Done && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again := enqueued(t, q, job.Job{Name: name, Key: name}); again.ID != ref.ID || again.State != want {
			t.Errorf("%s: %+v, want %s, %v", name, again, ref.ID, want)
		}
	}
}
