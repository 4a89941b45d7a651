package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

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
		_, r, err := here.Run(t.Context(), job.Job{Name: "a"})
		if took := time.Since(start); err != nil || string(r.Payload) != "x" || took > time.Minute+time.Second+jobs.AskAgain {
			t.Errorf("%q, %v after %v, want the result within %v of its end", r.Payload, err, took, jobs.AskAgain)
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
			ref, _, err := q.Run(ctx, job.Job{Name: "a"})
			if !errors.Is(err, cause) || ref.ID == "" {
				t.Errorf("Run: %+v, %v, want the job and why it was not waited for", ref, err)
			}
			if _, err := q.Wait(ctx, ref.ID); !errors.Is(err, cause) {
				t.Errorf("Wait: %v", err)
			}
			for _, id := range []string{newID(), "", "x"} {
				if _, err := q.Wait(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
					t.Errorf("Wait for %q: %v", id, err)
				}
			}
			if len(q.jobs.Waits.ByID) != 0 {
				t.Errorf("%d ids are still waited for", len(q.jobs.Waits.ByID))
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
			if err := <-ended; !errors.Is(err, job.ErrClosed) {
				t.Errorf("Wait at the end of the queue: %v", err)
			}
			if _, _, err := q.Run(t.Context(), job.Job{Name: "a"}); !errors.Is(err, job.ErrClosed) {
				t.Errorf("Run after the end of the queue: %v", err)
			}
		})
	}
}
