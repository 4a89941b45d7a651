package queue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

var errDisk = errors.New("the disk is slow today")

// TestKeepTrying has a store that does not take what follows an attempt for a
// while: the job runs as often as it should, holds no worker meanwhile, and its
// outcome comes when the store does.
func TestKeepTrying(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		op      string
		stream  engine.Stream
		handler bullpen.Handler
		runs    int64
		ok      bool
	}{
		{"the outcome", "put", engine.Outcomes, echoes, 1, true},
		{"the dead job", "put", engine.Dead, refuses, 1, false},
		{"the attempts", "put", engine.State, failsOnce(), 2, true},
		{"the look at the outcome", "get", engine.Outcomes, failsOnce(), 2, true},
		{"the look at the attempts", "get", engine.State, failsOnce(), 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &memory.Store{Shared: true}
				q := openOn(t, Config{Store: s})
				feed := q.Events(100)
				left := failing(s, c.op, c.stream, 1<<40, errDisk)
				var runs atomic.Int64
				team := newTeam(1, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
					runs.Add(1)
					return c.handler(ctx, task)
				})
				workOn(t, q, team, WorkConfig{})
				ref := enqueued(t, q, job.Job{Name: "a", Payload: []byte("x")})
				<-time.After(time.Minute)
				synctest.Wait()
				if runs.Load() == 0 || team.Capacity() != 1 || q.Stats().InHand != 1 {
					t.Errorf("after %d runs %d places are free, and %d jobs are in hand", runs.Load(), team.Capacity(), q.Stats().InHand)
				}
				left.Store(0)
				r, err := q.Wait(t.Context(), ref.ID)
				if c.ok && (err != nil || string(r.Payload) != "x") || !c.ok && err == nil {
					t.Errorf("it ends with %q, %v", r.Payload, err)
				}
				if runs.Load() != c.runs {
					t.Errorf("it ran %d times, want %d", runs.Load(), c.runs)
				}
				q.inHand(t, 0)
				feed.Close()
				refusals := 0
				for e := range feed.C {
					if e.Kind == job.NotKept {
						refusals++
					}
				}
				if refusals == 0 {
					t.Error("no event reports that the store refuses")
				}
			})
		})
	}
}

func refuses(context.Context, bullpen.Task) ([]byte, error) { return nil, bullpen.Fail("no", false) }

func failsOnce() bullpen.Handler {
	return func(_ context.Context, task bullpen.Task) ([]byte, error) {
		if AttemptOf(task).Attempt == 1 {
			return nil, bullpen.Fail("not yet", true)
		}
		return task.Payload, nil
	}
}

// inHand waits for what is under way, then checks how many jobs are in hand.
func (q *Queue) inHand(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	if s := q.Stats(); s.InHand != want || s.Recording != 0 {
		t.Errorf("%d jobs are in hand and %d outcomes under way, want %d and 0", s.InHand, s.Recording, want)
	}
}

// TestTheStoreFailsForGood has a job whose outcome can not be stored any more:
// Work ends with the reason, and the job is left alone.
func TestTheStoreFailsForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		q := openOn(t, Config{Store: s})
		feed := q.Events(0)
		began, ends := make(chan struct{}), make(chan struct{})
		worked := make(chan error, 1)
		go func() { // ends when the store has failed
			worked <- q.Work(t.Context(), newTeam(1, func(context.Context, bullpen.Task) ([]byte, error) {
				close(began)
				<-ends
				return nil, nil
			}), WorkConfig{})
		}()
		ref := enqueued(t, q, job.Job{Name: "a"})
		<-began
		waited := make(chan error, 1)
		go func() { // ends when the store has failed, or with the queue
			_, err := q.Wait(t.Context(), ref.ID)
			waited <- err
		}()
		synctest.Wait()
		s.Fail(errDisk)
		close(ends)
		if err := <-worked; !errors.Is(err, job.ErrStore) || !errors.Is(err, errDisk) {
			t.Errorf("Work ended with %v, want why the store failed", err)
		}
		q.inHand(t, 0)
		if _, err := q.Enqueue(t.Context(), job.Job{Name: "a"}); !errors.Is(err, job.ErrStore) {
			t.Errorf("Enqueue: %v", err)
		}
		<-q.Failed()
		synctest.Wait()
		feed.Close()
		if all := kinds(feed); !slices.Contains(all, job.StoreFailed) || !errors.Is(q.Err(), errDisk) {
			t.Errorf("the events %v, the error %v", all, q.Err())
		}
		<-time.After(2 * jobs.AskAgain)
		select {
		case err := <-waited:
			if !errors.Is(err, job.ErrStore) {
				t.Errorf("Wait: %v", err)
			}
		default:
			t.Error("Wait goes on although the store has failed")
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			<-waited
		}
	})
}

// TestADamagedOutcome has a job that comes again, whose outcome is recorded and
// cannot be read: it must leave the queue all the same.
func TestADamagedOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		raw := rawEngine(t, s)
		id := newID()
		job := &record.Job{ID: id, Job: job.Job{Name: "a", Queue: "default"}, Again: true}
		e := &record.End{ID: id, Queue: "default", Ended: moment(0)}
		record := e.Encode()
		record[len(record)-1] ^= 1
		putRaw(t, raw, engine.Put{Subject: engine.JobSubject(job.Consumer(), id), Data: job.Encode()})
		putRaw(t, raw, engine.Put{Stream: engine.Outcomes, Subject: "out." + id, Data: record})
		q := openOn(t, Config{Store: s})
		workOn(t, q, newTeam(1, echoes), WorkConfig{})
		<-time.After(5 * time.Minute)
		q.inHand(t, 0)
		if q.Stats().Damaged == 0 {
			t.Error("nothing tells of the damage")
		}
		if m, err := raw.Get(t.Context(), engine.Jobs, "job.*.*."+id); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("the job is still there after 5 min: %v, %v", m.Subject, err)
		}
	})
}

// TestDamagedAttempts has a job of whose attempts the record cannot be read: that
// is reported, and it runs.
func TestDamagedAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		raw := rawEngine(t, s)
		waiting := &record.Job{ID: newID(), Job: job.Job{Name: "a", Queue: "default"}, Again: true}
		record := (&record.Tries{Started: 3}).Encode(waiting.ID)
		record[len(record)-1] ^= 1
		putRaw(t, raw, engine.Put{Stream: engine.State, Subject: "try." + waiting.ID, Data: record})
		putRaw(t, raw, engine.Put{Subject: engine.JobSubject(waiting.Consumer(), waiting.ID), Data: waiting.Encode()})
		q := openOn(t, Config{Store: s})
		if info, err := q.Get(t.Context(), waiting.ID); err != nil || info.State != job.Queued {
			t.Errorf("Get before it runs: %+v, %v, want it queued, whatever is not known of its attempts", info, err)
		}
		workOn(t, q, newTeam(1, echoes), WorkConfig{})
		<-time.After(time.Minute)
		if info, err := q.Get(t.Context(), waiting.ID); err != nil || info.State != job.Done || q.Stats().Damaged == 0 {
			t.Errorf("%+v, %v and %d damaged, want it done and reported", info, err, q.Stats().Damaged)
		}
	})
}
