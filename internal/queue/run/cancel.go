package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// errTakenBack is the cause of the contexts of jobs that are canceled.
var errTakenBack = errors.New("the job was canceled")

// Cancel implements queue.Queue.Cancel.
func (q *Node) Cancel(ctx context.Context, id string) error {
	if err := record.CheckID(id); err != nil {
		return err
	}
	for {
		info, record, err := q.Stored(ctx, id)
		if err != nil {
			return err
		}
		if info.State.Ended() {
			return fmt.Errorf("%w: %s is %v", job.ErrEnded, id, info.State)
		}
		done, err := q.takeBack(ctx, info, record)
		if done || err != nil {
			return err
		}
	}
}

// takeBack records that a job is canceled, and removes its messages. If the job ended
// meanwhile, done is false and err is nil.
func (q *Node) takeBack(ctx context.Context, info *job.Info, data []byte) (done bool, err error) {
	e := &record.End{
		ID: info.ID, Queue: info.Queue, Name: info.Name, Key: info.Key, Priority: info.Priority,
		Outcome: bullpen.Canceled, Reason: job.TakenBack, Enqueued: info.Enqueued, Ended: time.Now(), Node: q.Config.Node,
		Message: "canceled while " + info.State.String(), Parent: info.Parent, Compensate: info.Compensate, Bury: info.Bury, Group: info.Group,
		Tries: record.Tries{Started: info.Attempts, Crashes: info.Crashes, History: info.History},
		Chain: record.Position{First: info.Chain, Number: info.Link, Of: info.Links}, Batch: info.Batch, Index: info.Index,
		Schedule: info.Schedule, Tick: info.Tick, Size: info.PayloadSize,
	}
	q.Config.KeepJob(e, data)
	err = q.Put(ctx, engine.Put{Stream: engine.Outcomes, Subject: "out." + e.ID, Data: e.Encode(), Durable: true, New: true})
	if errors.Is(err, engine.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	q.Counters.Of(e.Queue).Ended[bullpen.Canceled].Add(1)
	q.Journal.Emit(job.Event{Kind: job.TookBack, Queue: e.Queue, Task: e.Name, Job: e.ID, Text: info.State.String()})
	q.TellEnded(e, info.Meta)
	q.Announce(e)
	q.interrupt(e.ID)
	if q.Engine.Shared() {
		q.Engine.Send("cancel", []byte(e.ID)) //nolint:errcheck // a node that does not hear it finds out at the end
	}
	q.EndKey(e)
	if info.Compensate != "" && (info.Attempts > 0 || info.State == job.Running) {
		if err := q.EnqueueFollowers(ctx, e, jobs.Undo(e, info.Compensate, info.Payload)); err != nil {
			return true, err
		}
	}
	return true, q.sweep(ctx, e.ID)
}

// sweep removes the messages of a job whose outcome is recorded, unless a node holds the
// job.
func (q *Node) sweep(ctx context.Context, id string) error {
	if q.held(id) {
		return nil
	}
	for _, of := range []struct {
		stream  engine.Stream
		subject string
	}{{engine.Jobs, "at." + id}, {engine.Jobs, "job.*.*." + id}, {engine.State, "try." + id}, {engine.State, "live." + id}} {
		m, err := q.Engine.Get(ctx, of.stream, of.subject)
		if err == nil {
			err = q.Engine.Delete(ctx, of.stream, m.Seq)
		}
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return jobs.StoreError(err)
		}
	}
	return nil
}

func (q *Node) held(id string) bool {
	return q.hand(id) != nil
}

// interrupt cancels a job that this node runs, or that waits here for its group's turn.
func (q *Node) interrupt(id string) {
	q.NoteCanceled(id)
	if a := q.hand(id); a != nil {
		a.cancel(errTakenBack)
		return
	}
	q.Remove(id)
}

// CancelChain implements queue.Queue.CancelChain.
func (q *Node) CancelChain(ctx context.Context, id string) error {
	for {
		err := q.Cancel(ctx, id)
		if !errors.Is(err, job.ErrEnded) {
			return err
		}
		e, lost := q.Outcome(ctx, id)
		if lost != nil || e.Next == "" {
			return err
		}
		if err := q.AwaitNext(ctx, e); err != nil {
			return err
		}
		id = e.Next
	}
}
