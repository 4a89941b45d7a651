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

// Groups holds the backlogs of this program. All methods are safe for concurrent use.
type Groups struct {
	*jobs.Jobs

	mu       sync.Mutex
	backlogs map[string]*Backlog // by queue; guarded by mu
	canceled canceled            // guarded by mu
}

// Call is a call of Work.
type Call interface {
	// Signal wakes the call: a job may begin.
	Signal()
	// Ended reports whether the call should return.
	Ended() bool
}

// New returns the groups of the jobs of list, without a backlog.
func New(list *jobs.Jobs) *Groups {
	return &Groups{Jobs: list, backlogs: make(map[string]*Backlog)}
}

// Enter lets c take jobs from the backlog of a queue, and creates the backlog for the
// first call. defaults are the limits of groups without their own; the last call decides.
func (q *Groups) Enter(queue string, c Call, defaults job.GroupLimits) (*Backlog, error) {
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
	b.calls[c] = struct{}{}
	if !c.Ended() { // otherwise a later call may have set its own defaults
		b.defaults = defaults
	}
	b.paused, b.looked = plain.Paused, time.Now()
	b.closed = false
	err = b.take()
	b.mu.Unlock()
	if err != nil {
		b.Leave(c)
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

// backlog returns the backlog of a queue, nil if no call of Work has created one.
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

// Hold stops the groups of a paused queue from beginning jobs, or lets them begin again.
func (q *Groups) Hold(queue string, paused bool) {
	if b := q.backlog(queue); b != nil {
		b.pause(paused)
	}
}

// Waiting returns how many jobs of a priority of a queue wait here, and how many of them
// wait for the limits of their groups.
func (q *Groups) Waiting(queue string, p job.Priority) (all, held int) {
	if b := q.backlog(queue); b != nil {
		return b.keeps(p)
	}
	return 0, 0
}

// Heard returns the handlers for messages of other nodes, by kind. Each takes a queue.
func (q *Groups) Heard() map[string]func(queue string) {
	return map[string]func(string){
		"limits": q.lookAt,
		"pause":  q.lookAt,
		"slots":  q.contend,
		"want":   q.giveUp,
	}
}

// lookAt makes the backlog of a queue read what another node has changed.
func (q *Groups) lookAt(queue string) {
	if b := q.backlog(queue); b != nil {
		q.Spawn(b.look) // ends with its calls, at the latest with Live
	}
}

// Tell sends other nodes a message about a queue. If it is lost, they notice the change
// within limitsAge.
func (q *Groups) Tell(what, queue string) {
	if q.Engine.Shared() {
		q.Engine.Send(what, []byte(queue)) //nolint:errcheck // see above
	}
}

// StopTaking stops taking jobs with a group. On a shared store the waiting jobs are given
// back; a store of its own has them again when it is next opened.
func (q *Groups) StopTaking() {
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	for _, b := range q.all() {
		if b.stop(b.shared); b.shared {
			b.release(ctx)
		}
	}
}

// releasePatience bounds how long StopTaking waits for a store to take back the slots of
// groups.
const releasePatience = time.Second
