package run

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// Pause implements queue.Queue.Pause.
func (q *Node) Pause(ctx context.Context, queue string) error { return q.pause(ctx, queue, true) }

// Resume implements queue.Queue.Resume.
func (q *Node) Resume(ctx context.Context, queue string) error { return q.pause(ctx, queue, false) }

func (q *Node) pause(ctx context.Context, queue string, paused bool) error {
	if err := job.CheckToken("queue", queue); err != nil {
		return err
	}
	for p := range job.Priority(job.Priorities) {
		c := engine.Consumer{Queue: queue, Priority: p.String()}
		if err := q.Engine.Pause(ctx, c, paused); err != nil {
			return jobs.StoreError(err)
		}
	}
	// Jobs with a group wait in the nodes, which hold them.
	q.Hold(queue, paused)
	q.Tell("pause", queue)
	kind := job.Resumed
	if paused {
		kind = job.Paused
	}
	q.Journal.Emit(job.Event{Kind: kind, Queue: queue})
	return nil
}

// Depth implements queue.Queue.Depth.
func (q *Node) Depth(ctx context.Context, queue string) ([]job.Depth, error) {
	if err := job.CheckToken("queue", queue); err != nil {
		return nil, err
	}
	all := make([]job.Depth, 0, job.Priorities)
	for _, p := range []job.Priority{job.High, job.Normal, job.Low} {
		d, err := q.Engine.Depth(ctx, engine.Consumer{Queue: queue, Priority: p.String()})
		if err != nil {
			return nil, jobs.StoreError(err)
		}
		g, err := q.Engine.Depth(ctx, engine.Consumer{Queue: queue, Priority: p.String(), Grouped: true})
		if err != nil {
			return nil, jobs.StoreError(err)
		}
		// The store counts the jobs that wait in this node as taken.
		kept, held := q.Waiting(queue, p)
		if kept = min(kept, g.Taken); held > 0 && held >= kept {
			held = kept + g.Waiting // includes the jobs behind them in the store
		}
		if d.Oldest.IsZero() || !g.Oldest.IsZero() && g.Oldest.Before(d.Oldest) {
			d.Oldest = g.Oldest
		}
		all = append(all, job.Depth{
			Queue: queue, Priority: p, Waiting: d.Waiting + g.Waiting + kept, Taken: d.Taken + g.Taken - kept, Held: held,
			Paused: d.Paused, Oldest: d.Oldest,
		})
	}
	return all, nil
}

// Counts implements queue.Queue.Counts.
func (q *Node) Counts(ctx context.Context, queue string) (job.Counts, error) {
	depths, err := q.Depth(ctx, queue)
	if err != nil {
		return job.Counts{}, err
	}
	var c job.Counts
	for _, d := range depths {
		c.Waiting += int64(d.Waiting)
		c.Taken += int64(d.Taken)
		c.Paused = c.Paused || d.Paused
		if !d.Oldest.IsZero() && (c.Oldest.IsZero() || d.Oldest.Before(c.Oldest)) {
			c.Oldest = d.Oldest
		}
	}
	c.Dead, err = q.Matching(ctx, engine.Dead, "dead."+queue+".*")
	return c, err
}
