package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/job"
)

// forgetful is a store that does not keep what is counted of batches.
func forgetful(s *memory.Store) {
	s.Inject(func(o memory.Operation) memory.Fault {
		if o.Name == "put" && strings.HasPrefix(o.Subject, "set.bend.") {
			return memory.Fault{Err: errDisk}
		}
		return memory.Fault{}
	})
}

// worksOff opens a queue and lets n jobs end, then dies.
func worksOff(t *testing.T, c Config, n int32, b job.Batch, jobs []job.Job) string {
	t.Helper()
	q, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	i, err := q.EnqueueBatch(t.Context(), b, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int32
	stop := workOn(t, q, newTeam(4, func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
		if ran.Add(1) > n {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	}), WorkConfig{Grace: -1})
	synctest.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	return i.ID
}

// TestBatchIsCountedAgain has nodes that die before they have stored what they have
// counted: it is found out from the outcomes, and what is no longer kept is lost.
func TestBatchIsCountedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		shared bool
		config Config
		jobs   int
		lost   int // at least
	}{
		{"few", false, Config{}, 100, 0},
		{"many", false, Config{}, 1000, 0},
		{"shared", true, Config{}, 1000, 0},
		{"forgotten", false, Config{Keep: job.Keep{OutcomeCount: 150}}, 1000, 350},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &memory.Store{Shared: c.shared}
				forgetful(s)
				c.config.Store = s
				id := worksOff(t, c.config, int32(c.jobs/2), job.Batch{Then: &job.Job{Name: "then"}}, make([]job.Job, c.jobs))
				s.Inject(nil)
				q := openOn(t, c.config)
				<-time.After(time.Second)
				synctest.Wait()
				i, err := q.GetBatch(t.Context(), id)
				if err != nil || i.Ended < c.jobs/2 || i.Ended >= c.jobs {
					t.Errorf("after the start the batch is %+v, %v, want %d ended", i, err, c.jobs/2)
				}
				workOn(t, q, newTeam(4, echoes), WorkConfig{})
				i = ended(t, q, id)
				if i.Lost < c.lost || c.lost == 0 && i.Lost > 0 || i.OK+i.Lost != c.jobs {
					t.Errorf("the batch is %+v, want %d lost", i, c.lost)
				}
			})
		})
	}
}

// TestBatchOfDamage has members that are gone or damaged: the batch ends all the
// same.
func TestBatchOfDamage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{}
		q := openOn(t, Config{Store: s})
		i, err := q.EnqueueBatch(t.Context(), job.Batch{Failed: &job.Job{Name: "failed"}}, make([]job.Job, 10))
		if err != nil {
			t.Fatal(err)
		}
		e := rawEngine(t, s)
		all, err := e.Scan(t.Context(), engine.Jobs, "job.*.*.*", 1, 100)
		if err != nil || len(all) != 10 {
			t.Fatalf("%d jobs, %v", len(all), err)
		}
		s.Lose("main", engine.Jobs, all[3].Seq)
		if err := e.Delete(t.Context(), engine.Jobs, all[5].Seq); err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(all[5].Data)
		bad[len(bad)-1]++
		putRaw(t, e, engine.Put{Stream: engine.Jobs, Subject: all[5].Subject, Data: bad})
		workOn(t, q, newTeam(2, echoes), WorkConfig{})
		i = ended(t, q, i.ID)
		if i.OK != 8 || i.Lost != 1 || i.Failed != 1 || i.FailedID == "" {
			t.Errorf("the batch is %+v, want one lost and one failed", i)
		}
	})
}

// TestCancelBatchAfterACrash has a node that dies when it has said that a batch is
// canceled: the next one cancels its members.
func TestCancelBatchAfterACrash(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &memory.Store{Shared: shared}
			q, err := Open(t.Context(), Config{Store: s})
			if err != nil {
				t.Fatal(err)
			}
			i, err := q.EnqueueBatch(t.Context(), job.Batch{}, make([]job.Job, 50))
			if err != nil {
				t.Fatal(err)
			}
			var dead atomic.Bool
			s.Inject(func(o memory.Operation) memory.Fault {
				if o.Name == "put" && o.Stream == engine.Outcomes && dead.CompareAndSwap(false, true) || dead.Load() {
					return memory.Fault{Err: engine.ErrClosed}
				}
				return memory.Fault{}
			})
			if _, err = q.CancelBatch(t.Context(), i.ID); err != nil && !errors.Is(err, job.ErrClosed) {
				t.Fatal(err)
			}
			synctest.Wait()
			if !dead.Load() {
				t.Fatal("no member was canceled")
			}
			q.Close() // it has died
			s.Inject(nil)
			q = openOn(t, Config{Store: s})
			began := time.Now()
			page, err := q.ListBatches(t.Context(), job.BatchFilter{})
			if err != nil || len(page.Batches) != 1 {
				t.Fatalf("%+v, %v", page, err)
			}
			if i = ended(t, q, page.Batches[0].ID); i.State != job.BatchCanceled || i.Canceled != 50 {
				t.Errorf("the batch is %+v, want 50 canceled", i)
			}
			t.Logf("shared %t: canceled after %v", shared, time.Since(began))
		})
	}
}

// TestEnqueueBatchCannotSeal has the record of a batch out of reach once its members
// are there: whoever enqueues it again must know which batch that is.
func TestEnqueueBatchCannotSeal(t *testing.T) {
	s := new(memory.Store)
	q, err := Open(t.Context(), Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() // nothing is in hand
	var put atomic.Bool
	away := errors.New("away")
	s.Inject(func(o memory.Operation) memory.Fault {
		switch {
		case o.Name == "put" && o.Stream == engine.Jobs:
			put.Store(true)
		case o.Name == "get" && put.Load() && strings.HasPrefix(o.Subject, "set.batch."):
			return memory.Fault{Err: away}
		}
		return memory.Fault{}
	})
	i, err := q.EnqueueBatch(t.Context(), job.Batch{Key: "b"}, make([]job.Job, 3))
	if !errors.Is(err, away) || i.ID == "" {
		t.Fatalf("EnqueueBatch = %+v, %v, want the id and why", i, err)
	}
	s.Inject(nil)
	if again, err := q.EnqueueBatch(t.Context(), job.Batch{Key: "b"}, make([]job.Job, 3)); err != nil || again.ID != i.ID || again.State != job.BatchRunning {
		t.Errorf("EnqueueBatch again = %+v, %v, want %s to run", again, err, i.ID)
	}
}
