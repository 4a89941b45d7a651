package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
)

// damagedStore has 600 good jobs, one that is damaged, one that has vanished, one
// that has vanished after its end, and one with a time.
func damagedStore(t *testing.T) (s *memory.Store, damaged, vanished, ended string) {
	t.Helper()
	s = &memory.Store{Shared: true, Counted: true}
	raw := rawEngine(t, s)
	put := func(change func([]byte), at time.Time) (id string, seq uint64) {
		j := &stored{id: newID(), job: Job{Name: "a", Queue: "default", At: at}}
		m := j.message()
		change(m.Data)
		return j.id, putRaw(t, raw, m)
	}
	same := func([]byte) {}
	for range 300 {
		put(same, time.Time{})
	}
	damaged, _ = put(func(b []byte) { b[len(b)-1] ^= 4 }, time.Time{})
	vanished, seq := put(same, time.Time{})
	if !s.Lose("main", engine.Jobs, seq) {
		t.Fatal("the store has lost nothing")
	}
	ended, seq = put(same, time.Time{})
	putRaw(t, raw, engine.Put{Stream: engine.Outcomes, Subject: "out." + ended, Data: (&ending{id: ended, ended: now}).encode()})
	if err := raw.Delete(t.Context(), engine.Jobs, seq); err != nil {
		t.Fatal(err)
	}
	put(same, time.Now().Add(time.Hour))
	for range 300 {
		put(same, time.Time{})
	}
	return s, damaged, vanished, ended
}

func TestVerify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, damaged, vanished, ended := damagedStore(t)
		l := &logged{}
		q := openOn(t, Config{Store: s, Logger: slog.New(l)})
		synctest.Wait()
		stats := q.Stats()
		if !q.verified.Load() || stats.Damaged != 1 || stats.Missing != 1 {
			t.Errorf("%d damaged and %d missing, want one of each", stats.Damaged, stats.Missing)
		}
		for _, c := range []struct {
			kind EventKind
			key  string
			want string
		}{{Damaged, "job", damaged}, {Missing, "job", vanished}, {Verified, "count", fmt.Sprint(602)}} {
			if got := l.of("queue: "+c.kind.String(), c.key); !slices.Equal(got, []string{c.want}) {
				t.Errorf("%v is told of %v, want %s", c.kind, got, c.want)
			}
		}
		_, err := q.Wait(t.Context(), vanished)
		var end *EndError
		if !errors.As(err, &end) || end.Reason != Vanished || end.Outcome != bullpen.Lost || end.Attempts != 0 {
			t.Errorf("the vanished job ends with %v", err)
		}
		if info, err := q.Get(t.Context(), ended); err != nil || info.State != Done {
			t.Errorf("the job that had ended is %+v, %v", info, err)
		}
		workOn(t, q, newTeam(8, echoes), WorkConfig{})
		<-time.After(time.Hour)
		_, err = q.Wait(t.Context(), damaged)
		if !errors.As(err, &end) || end.Reason != Corrupt || end.Outcome != bullpen.Lost || end.Task != nil {
			t.Errorf("the damaged job ends with %v", err)
		}
		if dead, err := q.GetDead(t.Context(), damaged); err != nil || dead.Payload != nil || dead.Reason != Corrupt {
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

// TestVerifyGoesOn has a store that cannot be read at the start: that is told, and
// the queue works.
func TestVerifyGoesOn(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"scan", "get", "put"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _, _, _ := damagedStore(t)
				s.Inject(func(o memory.Operation) memory.Fault {
					if o.Name == operation {
						return memory.Fault{Err: errDisk}
					}
					return memory.Fault{}
				})
				l := &logged{}
				q := openOn(t, Config{Store: s, Logger: slog.New(l)})
				synctest.Wait()
				if texts := l.of("queue: "+NotKept.String(), "text"); len(texts) != 1 {
					t.Errorf("%q is told, want one line", texts)
				}
				s.Inject(nil)
				workOn(t, q, newTeam(8, echoes), WorkConfig{})
				if _, _, err := q.Run(t.Context(), Job{Name: "a"}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestVerifyAgain has the next start: what was reported missing has an outcome
// now and is not reported again.
func TestVerifyAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, vanished, _ := damagedStore(t)
		for n := range 2 {
			q := openOn(t, Config{Store: s})
			synctest.Wait()
			if missing := q.Stats().Missing; missing != uint64(1-n) {
				t.Errorf("start %d: %d are missing", n, missing)
			}
			if _, err := q.Wait(context.Background(), vanished); err == nil {
				t.Error("the vanished job has ended well")
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestErrorsOfDamage has the error of a call that meets a damaged record: it says
// so, and not that the store is silent.
func TestErrorsOfDamage(t *testing.T) {
	t.Parallel()
	s, damaged, _, _ := damagedStore(t)
	q := openOn(t, Config{Store: s})
	_, err := q.Get(t.Context(), damaged)
	if !errors.Is(err, errCorrupt) || errors.Is(err, ErrStore) {
		t.Errorf("Get: %v, want an error that tells of damage and not of a store that does not answer", err)
	}
}

// TestWaitForADamagedJob waits for one that is still to be buried.
func TestWaitForADamagedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, damaged, _, _ := damagedStore(t)
		q := openOn(t, Config{Store: s})
		ended := make(chan error, 1)
		go func() { // ends when the job is buried
			_, err := q.Wait(t.Context(), damaged)
			ended <- err
		}()
		synctest.Wait()
		workOn(t, q, newTeam(8, echoes), WorkConfig{})
		var end *EndError
		if err := <-ended; !errors.As(err, &end) || end.Reason != Corrupt {
			t.Errorf("Wait: %v, want that it is buried as corrupt", err)
		}
	})
}
