package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// inOrder lets jobs run one at a time, and tells by their groups in what order.
type inOrder struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (o *inOrder) handle(_ context.Context, t bullpen.Task) ([]byte, error) {
	o.mu.Lock()
	o.all = append(o.all, t.Name)
	o.mu.Unlock()
	<-time.After(time.Second)
	return nil, nil
}

// TestTurnsOfGroups has a thousand jobs of one group and few of others: each group
// has one of every round.
func TestTurnsOfGroups(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := openOn(t, Config{Store: &memory.Store{Shared: shared}})
			for range 1000 {
				enqueued(t, q, job.Job{Name: "big", Group: "big"})
			}
			var o inOrder
			workOn(t, q, newTeam(1, o.handle), WorkConfig{})
			<-time.After(20*time.Second + time.Millisecond)
			for i := range 4 {
				for range 3 {
					name := fmt.Sprint("small ", i)
					enqueued(t, q, job.Job{Name: name, Group: name})
				}
			}
			<-time.After(30 * time.Second)
			o.mu.Lock()
			defer o.mu.Unlock()
			for i := range 4 {
				name, found := fmt.Sprint("small ", i), 0
				for at, one := range o.all[21:36] {
					if one == name {
						if found++; at > 5*found {
							t.Errorf("job %d of %s started after %d others of 5 groups", found, name, at)
						}
					}
				}
				if found != 3 {
					t.Errorf("of %s %d jobs started in three rounds, want 3: %v", name, found, o.all[21:36])
				}
			}
		})
	}
}

// TestRateToTheMoment has a bucket: at once its burst, then one each time that the
// rate says.
func TestRateToTheMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{Store: &memory.Store{}})
		for range 20 {
			enqueued(t, q, job.Job{Group: "a"})
		}
		var mu sync.Mutex
		var starts []time.Duration
		begin := time.Now()
		workOn(t, q, newTeam(16, func(context.Context, bullpen.Task) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Since(begin))
			return nil, nil
		}), WorkConfig{Group: job.GroupLimits{Rate: 2, Burst: 4}})
		<-time.After(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(starts) != 20 {
			t.Fatalf("%d jobs have started, want 20", len(starts))
		}
		for i, at := range starts {
			want := time.Duration(max(i-3, 0)) * 500 * time.Millisecond
			if at < want || at > want+10*time.Millisecond {
				t.Errorf("job %d started after %v, want %v", i, at, want)
			}
		}
	})
}

// TestPlacesOfADeadNode has the only place of a group in the hands of a node that
// says nothing any more: another one has it within two leases, and not before one
// has passed.
func TestPlacesOfADeadNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		store := &memory.Store{Shared: true}
		raw := rawEngine(t, store)
		subject := "set.slot.default." + record.GroupToken("a")
		died := record.Slots{Nodes: []record.Slot{{Node: "dead", Count: 1, Beat: 7}}}
		putRaw(t, raw, engine.Put{Stream: engine.State, Subject: subject, Data: died.Encode(subject)})
		q := openOn(t, Config{Store: store, Lease: lease})
		for range 6 {
			enqueued(t, q, job.Job{Group: "a"})
		}
		executor := newTeam(4, echoes)
		workOn(t, q, executor, WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
		<-time.After(lease)
		if n := executor.most.Load(); n != 0 {
			t.Errorf("%d jobs ran before the lease of the node with their place was over", n)
		}
		<-time.After(lease)
		if n := q.Stats().Ended[bullpen.OK]; n != 6 || executor.most.Load() != 1 {
			t.Errorf("two leases after the death of a node %d jobs have run, %d at the same time; want 6, one at a time", n, executor.most.Load())
		}
	})
}

// TestPlacesAreKept has a job that runs for many leases: its place stays taken.
func TestPlacesAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		c := Config{Store: &memory.Store{Shared: true}, Lease: lease}
		first, second := openOn(t, c), openOn(t, c)
		long := newTeam(4, func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			<-time.After(10 * lease)
			return nil, nil
		})
		for range 2 {
			enqueued(t, first, job.Job{Group: "a"})
		}
		limits := WorkConfig{Group: job.GroupLimits{Concurrency: 1}}
		workOn(t, first, long, limits)
		<-time.After(time.Second)
		other := newTeam(4, echoes)
		workOn(t, second, other, limits)
		for range 6 {
			enqueued(t, first, job.Job{Group: "a"})
		}
		<-time.After(9 * lease)
		if n := other.most.Load() + long.most.Load(); n != 1 {
			t.Errorf("%d jobs ran at the same time, want 1", n)
		}
		<-time.After(100 * lease)
		if n := first.Stats().Ended[bullpen.OK] + second.Stats().Ended[bullpen.OK]; n != 8 {
			t.Errorf("%d jobs have ended, want all 8", n)
		}
	})
}

// TestMoreThanIsCached has more jobs wait than the backlog keeps with their payloads:
// each runs once with its own, but for those that were canceled.
func TestMoreThanIsCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory.Store{}
		q := openOn(t, Config{Store: store, Lease: 10 * time.Second})
		const most = group.MostCached + 500
		if err := q.Pause(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		ran := map[string]int{}
		workOn(t, q, newTeam(8, func(_ context.Context, task bullpen.Task) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			ran[string(task.Payload)]++
			return task.Payload, nil
		}), WorkConfig{})
		ids := make([]string, most)
		for i := range ids {
			ids[i] = enqueued(t, q, job.Job{Group: "a", Payload: fmt.Append(nil, i)}).ID
		}
		<-time.After(time.Minute) // many leases
		if d, err := q.Depth(t.Context(), "default"); err != nil || d[1].Waiting != most || d[1].Taken != 0 {
			t.Errorf("Depth = %+v, %v, want %d waiting", d, err, most)
		}
		if err := q.Cancel(t.Context(), ids[most-1]); err != nil {
			t.Error(err)
		}
		if err := q.Resume(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(ran) != most-1 || ran[fmt.Sprint(most-1)] != 0 {
			t.Errorf("%d jobs ran, want all but the one that was canceled, %d", len(ran), most-1)
		}
		for payload, n := range ran {
			if n != 1 {
				t.Errorf("the job with the payload %s ran %d times", payload, n)
			}
		}
		q.inHand(t, 0)
		if n := q.Stats().Redelivered; n != 0 {
			t.Errorf("%d jobs are taken for ones whose node died", n)
		}
	})
}

// TestUnusedRate has jobs of a group with a rate end before they begin: what the
// group may begin is left to those that do.
func TestUnusedRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{Store: &memory.Store{}})
		for range 8 {
			enqueued(t, q, job.Job{Group: "a", Deadline: time.Now().Add(time.Second)})
		}
		<-time.After(2 * time.Second)
		ref := enqueued(t, q, job.Job{Group: "a"})
		begin := time.Now()
		workOn(t, q, newTeam(4, echoes), WorkConfig{Group: job.GroupLimits{Rate: 0.01, Burst: 1}})
		if _, err := q.Wait(t.Context(), ref.ID); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it started after %v, behind 8 that had expired", took)
		}
	})
}
