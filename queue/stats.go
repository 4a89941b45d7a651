package queue

import (
	"context"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
)

// Stats is what this program has done on a queue since Open, and what it has in hand.
// Depth has what waits in the queue, Status the state of the store.
type Stats struct {
	// Enqueued jobs were confirmed to this program. Duplicates had the key of an
	// existing job. Refused jobs found the queue full.
	Enqueued, Duplicates, Refused uint64
	// Taken jobs were delivered to this program; Redelivered is how many of them came
	// after the death of the node that had them.
	Taken, Redelivered uint64
	// Ended counts the outcomes that this program recorded.
	Ended map[bullpen.Outcome]uint64
	// Retried attempts were followed by another. GaveBack jobs were not started by the
	// executor and were returned.
	Retried, GaveBack uint64
	// Dead jobs have failed for good; Quarantined is how many of them had killed too
	// many workers or nodes.
	Dead, Quarantined uint64
	// Damaged records did not match their checksums. Missing members of batches were no
	// longer in the queue, and their outcomes were not known.
	Damaged, Missing uint64
	// Schedules is what FireSchedules has done in this program.
	Schedules ScheduleStats
	// Batches is how many batches this program opened, BatchesEnded how many it found
	// to have ended, Callbacks how many of their callbacks it enqueued. BatchesOpen is
	// how many batches have not ended, of all on this store.
	Batches, BatchesEnded, Callbacks uint64
	BatchesOpen                      int
	// InHand is how many jobs this program has in hand now. Recording is how many of
	// these have ended and wait for their outcome to be stored; they occupy no worker.
	InHand, Recording int
	// EventsLost is how many lines the logger was too slow for.
	EventsLost uint64
}

// Stats returns the counts of all queues together; [Queue.QueueStats] has those of one.
// It reads nothing from the store.
func (q *Queue) Stats() Stats {
	list, b := q.jobs, q.batches
	s := Stats{
		Damaged: list.Damages.Load(), Missing: b.Counters.Missing.Load(),
		InHand: int(q.node.InHand.Load()), Recording: int(q.node.Recording.Load()), Schedules: ticksOf(&q.schedules.Ticks), EventsLost: list.Journal.Lost(),
		Batches: b.Counters.Opened.Load(), BatchesEnded: b.Counters.Ended.Load(), Callbacks: b.Counters.Callbacks.Load(), BatchesOpen: b.Size(),
		Ended: make(map[bullpen.Outcome]uint64),
	}
	list.Counters.All(func(_ string, t *jobs.Counters) { addTo(&s, t) })
	return s
}

// Status describes the store.
type Status struct {
	// Kind is "memory", "embedded" or "server".
	Kind string
	// Durability says in words what a confirmed Enqueue survives.
	Durability string
	Replicas   int
	// Jobs, Outcomes, State and Dead are how much the streams hold.
	Jobs, Outcomes, State, Dead Usage
	// DeadKept is how long dead jobs are kept.
	DeadKept Kept
	Sync     Sync
}

// Kept is how long something is kept: until it is too old, or newer things need its
// bytes.
type Kept struct {
	// MaxBytes and MaxAge are the bounds, as in Config.Keep.
	MaxBytes int64
	MaxAge   time.Duration
	// Oldest is when the oldest of them was stored, Expires when it will be too old;
	// zero if there is none.
	Oldest, Expires time.Time
}

// Usage is how much a stream holds.
type Usage struct{ Messages, Bytes int64 }

// Sync describes the last 1024 syncs of the disk, if this program runs the store: how
// long they took, and how many there were for how many confirmations.
type Sync struct {
	Syncs, Confirms     int64
	P50, P99, Max, Last time.Duration
}

// Status returns the state of the store.
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
