package queue

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// damagedStore has 600 good jobs, one that is damaged, and one with a time.
func damagedStore(t *testing.T) (s *memory.Store, damaged string) {
	t.Helper()
	s = &memory.Store{Shared: true}
	raw := rawEngine(t, s)
	put := func(change func([]byte), at time.Time) (id string) {
		j := &record.Job{ID: newID(), Job: job.Job{Name: "a", Queue: "default", At: at}}
		m := j.Message()
		change(m.Data)
		putRaw(t, raw, m)
		return j.ID
	}
	same := func([]byte) {}
	for range 300 {
		put(same, time.Time{})
	}
	damaged = put(func(b []byte) { b[len(b)-1] ^= 4 }, time.Time{})
	put(same, time.Now().Add(time.Hour))
	for range 300 {
		put(same, time.Time{})
	}
	return s, damaged
}

func TestVerify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, damaged := damagedStore(t)
		l := &logged{}
		q := openOn(t, Config{Store: s, Logger: slog.New(l)})
		synctest.Wait()
		stats := q.Stats()
		if !q.jobs.Verified.Load() || stats.Damaged != 1 {
			t.Errorf("%d damaged, want one", stats.Damaged)
		}
		for _, c := range []struct {
			kind job.EventKind
			key  string
			want string
		}{{job.Damaged, "job", damaged}, {job.Verified, "count", fmt.Sprint(602)}} {
			if got := l.of("queue: "+c.kind.String(), c.key); !slices.Equal(got, []string{c.want}) {
				t.Errorf("%v is reported of %v, want %s", c.kind, got, c.want)
			}
		}
		workOn(t, q, newTeam(8, echoes), WorkConfig{})
		<-time.After(time.Hour)
		_, err := q.Wait(t.Context(), damaged)
		var end *job.EndError
		if !errors.As(err, &end) || end.Reason != job.Corrupt || end.Outcome != bullpen.Lost || end.Task != nil {
			t.Errorf("the damaged job ends with %v", err)
		}
		if dead, err := q.GetDead(t.Context(), damaged); err != nil || dead.Payload != nil || dead.Reason != job.Corrupt {
			t.Errorf("the damaged job is among the dead as %+v, %v", dead, err)
		}
		if _, err := q.RetryDead(t.Context(), damaged); err == nil {
			t.Error("a damaged job is tried again")
		}
		q.inHand(t, 0)
		if n := q.Stats().Ended[bullpen.OK]; n != 601 {
			t.Errorf("%d jobs ended well, want 601", n)
		}
	})
}

// TestVerifyGoesOn has a store that cannot be read at the start: that is reported, and
// the queue works.
func TestVerifyGoesOn(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"scan"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _ := damagedStore(t)
				s.Inject(func(o memory.Operation) memory.Fault {
					if o.Name == operation {
						return memory.Fault{Err: errDisk}
					}
					return memory.Fault{}
				})
				l := &logged{}
				q := openOn(t, Config{Store: s, Logger: slog.New(l)})
				synctest.Wait()
				if texts := l.of("queue: "+job.NotKept.String(), "text"); len(texts) != 1 {
					t.Errorf("%q is logged, want one line", texts)
				}
				s.Inject(nil)
				workOn(t, q, newTeam(8, echoes), WorkConfig{})
				if _, _, err := q.Run(t.Context(), job.Job{Name: "a"}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestErrorsOfDamage has the error of a call that meets a damaged record: it says
// so, and not that the store is silent.
func TestErrorsOfDamage(t *testing.T) {
	t.Parallel()
	s, damaged := damagedStore(t)
	q := openOn(t, Config{Store: s})
	_, err := q.Get(t.Context(), damaged)
	if !errors.Is(err, job.ErrDamaged) || errors.Is(err, job.ErrStore) {
		t.Errorf("Get: %v, want an error that tells of damage and not of a store that does not answer", err)
	}
}

// TestWaitForADamagedJob waits for one that is still to be buried.
func TestWaitForADamagedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, damaged := damagedStore(t)
		q := openOn(t, Config{Store: s})
		ended := make(chan error, 1)
		go func() { // ends when the job is buried
			_, err := q.Wait(t.Context(), damaged)
			ended <- err
		}()
		synctest.Wait()
		workOn(t, q, newTeam(8, echoes), WorkConfig{})
		var end *job.EndError
		if err := <-ended; !errors.As(err, &end) || end.Reason != job.Corrupt {
			t.Errorf("Wait: %v, want that it is buried as corrupt", err)
		}
	})
}
