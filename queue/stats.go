package queue

import (
	"context"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
)

// Stats is what this program has done on a queue since Open, and what it has in
// hand. For what waits in the queue ask Depth, for the store ask Status.
type Stats struct {
	// Enqueued jobs were confirmed to this program; Duplicates had the key of a
	// job that was there; Refused found the queue full.
	Enqueued, Duplicates, Refused uint64
	// Taken jobs were handed to this program, Redelivered ones of them after the
	// death of the node that had them.
	Taken, Redelivered uint64
	// Ended counts the outcomes that this program recorded.
	Ended map[bullpen.Outcome]uint64
	// Retried attempts were followed by another; GaveBack ones were refused by the
	// executor, and never started.
	Retried, GaveBack uint64
	// Dead jobs failed for good, Quarantined ones of them for killing workers.
	Dead, Quarantined uint64
	// Damaged records did not have their checksum; Missing members of batches were
	// neither in the queue nor was it known how they ended.
	Damaged, Missing uint64
	// Schedules is what FireSchedules of this program has done.
	Schedules ScheduleStats
	// Batches were opened by this program, BatchesEnded were found by it to have
	// ended, and Callbacks of batches were enqueued. BatchesOpen is how many it counts
	// now, which is all on this store that have not ended.
	Batches, BatchesEnded, Callbacks uint64
	BatchesOpen                      int
	// Hands is how many jobs this program has in hand now, Recording how many of
	// these have ended and wait for their outcome to reach the disk; these hold
	// no worker.
	Hands, Recording int
	// EventsLost counts lines that the logger was too slow for.
	EventsLost uint64
}

// Stats returns counts of all queues together; [Queue.QueueStats] tells those of
// one. It is cheap and asks nobody.
func (q *Queue) Stats() Stats {
	list, b := q.jobs, q.batches
	s := Stats{
		Damaged: list.Damages.Load(), Missing: b.Tally.Missing.Load(),
		Hands: int(q.node.InHand.Load()), Recording: int(q.node.Recording.Load()), Schedules: ticksOf(&q.schedules.Ticks), EventsLost: list.Journal.Lost.Load(),
		Batches: b.Tally.Opened.Load(), BatchesEnded: b.Tally.Ended.Load(), Callbacks: b.Tally.Callbacks.Load(), BatchesOpen: b.Size(),
		Ended: make(map[bullpen.Outcome]uint64),
	}
	list.Tallies.All(func(_ string, t *jobs.Tally) { addTo(&s, t) })
	return s
}

// Status is what the store says of itself.
type Status struct {
	// Kind is "memory", "embedded" or "server".
	Kind string
	// Durability says in words what a confirmed Enqueue has survived.
	Durability string
	Replicas   int
	// Jobs, Outcomes, State and Dead say how much the streams hold.
	Jobs, Outcomes, State, Dead Usage
	// DeadKept says how long the dead are kept.
	DeadKept Kept
	Sync     Sync
}

// Kept is how long something is kept: until it is too old, or newer ones need the
// bytes.
type Kept struct {
	// MaxBytes and MaxAge are the bounds, as in Config.Keep.
	MaxBytes int64
	MaxAge   time.Duration
	// Oldest is when the oldest of them was stored, and Expires when it is too old; zero
	// where there is none.
	Oldest, Expires time.Time
}

// Usage is how much a stream holds.
type Usage struct{ Messages, Bytes int64 }

// Sync says how fast the disk is, where this program runs the store: of the last
// 1024 syncs, and how many there were for how many confirms.
type Sync struct {
	Syncs, Confirms     int64
	P50, P99, Max, Last time.Duration
}

// Status asks the store how it does.
func (q *Queue) Status(ctx context.Context) (Status, error) {
	i, err := q.jobs.Engine.Info(ctx)
	if err != nil {
		return Status{}, jobs.StoreError(err)
	}
	kept, err := q.deadKept(ctx, i.Streams[engine.Dead].Messages > 0)
	if err != nil {
		return Status{}, err
	}
	of := func(s engine.Stream) Usage { return Usage{i.Streams[s].Messages, i.Streams[s].Bytes} }
	return Status{
		Kind: i.Kind, Durability: i.Durability, Replicas: i.Replicas,
		Jobs: of(engine.Jobs), Outcomes: of(engine.Outcomes), State: of(engine.State), Dead: of(engine.Dead), DeadKept: kept,
		Sync: Sync{i.Sync.Syncs, i.Sync.Confirms, i.Sync.P50, i.Sync.P99, i.Sync.Max, i.Sync.Last},
	}, nil
}

func (q *Queue) deadKept(ctx context.Context, any bool) (Kept, error) {
	k := Kept{MaxBytes: q.jobs.Config.Keep.Dead, MaxAge: q.jobs.Config.Keep.DeadAge}
	if !any {
		return k, nil
	}
	_, err := q.jobs.Engine.Walk(ctx, engine.Dead, engine.Walk{}, func(m engine.Message) bool {
		k.Oldest, k.Expires = m.Time, m.Time.Add(k.MaxAge)
		return false
	})
	return k, jobs.StoreError(err)
}

// Failed is closed when the store has failed: nothing more is confirmed until the
// program is started again. What was confirmed is safe. Err says why.
func (q *Queue) Failed() <-chan struct{} {
	return q.jobs.Failed()
}

// Err returns why the store failed, nil while it has not.
func (q *Queue) Err() error {
	return q.jobs.Err()
}
