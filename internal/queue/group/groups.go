package group

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// Groups is this program, as far as jobs with a group wait in it. All methods may be
// called from many goroutines at once.
type Groups struct {
	*jobs.Jobs

	mu       sync.Mutex
	backlogs map[string]*Backlog // by queue; guarded by mu
	canceled canceled            // guarded by mu
}

// Worker is a call of Work.
type Worker interface {
	// Signal says that a job may begin.
	Signal()
	// Ended reports whether the call is to end.
	Ended() bool
}

// New returns the groups of the jobs of list, none of which waits yet.
func New(list *jobs.Jobs) *Groups {
	return &Groups{Jobs: list, backlogs: make(map[string]*Backlog)}
}

// Enter lets w take jobs from the backlog of a queue, which is made for the first one.
// Groups of which nothing else is set have the limits that the last call gives.
func (q *Groups) Enter(queue string, w Worker, defaults job.GroupLimits) (*Backlog, error) {
	b := q.enter(queue)
	set, err := q.setLimits(q.Live, queue)
	if err != nil {
		return nil, err
	}
	plain, err := q.Engine.Depth(q.Live, engine.Consumer{Queue: queue, Priority: job.Normal.String()})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.workers[w] = struct{}{}
	if !w.Ended() { // or a later call, which began after this one had ended, has said what holds
		b.defaults = defaults
	}
	b.paused, b.looked = plain.Paused, time.Now()
	b.closed = false
	err = b.take()
	b.mu.Unlock()
	if err != nil {
		b.Leave(w)
		return nil, err
	}
	b.limit(set)
	return b, nil
}

func (q *Groups) enter(queue string) *Backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.backlogs[queue]
	if b == nil {
		b = newBacklog(q, queue)
		q.backlogs[queue] = b
	}
	return b
}

// backlog returns the backlog of a queue, nil where no call of Work has made one.
func (q *Groups) backlog(queue string) *Backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backlogs[queue]
}

func (q *Groups) all() []*Backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Values(q.backlogs))
}

// Hold has the groups of a queue begin no jobs, or begin them again: the queue is
// paused, or is no longer.
func (q *Groups) Hold(queue string, paused bool) {
	if b := q.backlog(queue); b != nil {
		b.pause(paused)
	}
}

// Waiting is how many jobs of a priority of a queue wait here, and how many of them
// for the limits of their groups.
func (q *Groups) Waiting(queue string, p job.Priority) (all, held int) {
	if b := q.backlog(queue); b != nil {
		return b.keeps(p)
	}
	return 0, 0
}

// Heard returns what is to be done with each message of other nodes about a queue.
func (q *Groups) Heard() map[string]func(queue string) {
	return map[string]func(string){
		"limits": q.lookAt,
		"pause":  q.lookAt,
		"slots":  q.contend,
		"want":   q.giveUp,
	}
}

// lookAt lets the backlog of a queue read what another node has changed.
func (q *Groups) lookAt(queue string) {
	if b := q.backlog(queue); b != nil {
		q.Spawn(b.look) // ends with its calls, at the latest with live
	}
}

// Tell tells other nodes something of a queue; it may be lost, then they find out by
// themselves within limitsAge.
func (q *Groups) Tell(what, queue string) {
	if q.Engine.Shared() {
		q.Engine.Send(what, []byte(queue)) //nolint:errcheck // see above
	}
}

// Disband ends the taking of jobs with a group. On a store of its own what waits is
// there again when it is opened; elsewhere it is given back.
func (q *Groups) Disband() {
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	for _, b := range q.all() {
		if b.stop(b.shared); b.shared {
			b.release(ctx)
		}
	}
}

// releasePatience bounds how long Disband waits for a store to take back the slots of
// groups.
const releasePatience = time.Second
