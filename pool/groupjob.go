package pool

import "sync/atomic"

// groupJob is a task of a group at a submitter with a timeout or a delay: a job with its own
// context that notifies its group when it is over.
type groupJob[A, R any] struct {
	job[A, R]
	members  crowd
	group    *FuncGroup[A, R]
	accepted atomic.Bool
	refused  bool // written by the caller before the task is counted as ended
}

// goApart is Go for tasks with their own contexts.
func (g *FuncGroup[A, R]) goApart(a A) error {
	j := g.newJob()
	j.arg = a
	it := j.ready(g.span.Context)
	j.word.Or(isKept)
	j.crowd.Store(&j.members)
	g.yields()
	if err := g.f.target.put(g.span.Context, &j.head, it); err != nil {
		j.refused = true
		g.ended(1)
		return err
	}
	j.accepted.Store(true)
	if g.stopped.Load() {
		j.revoke(g.stopCause()) // stop may have missed it
	}
	return nil
}

// newJob returns the next job, and allocates several at once.
func (g *FuncGroup[A, R]) newJob() *groupJob[A, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.room) == 0 {
		g.room = make([]groupJob[A, R], min(max(len(g.jobs), 1), slabSize))
	}
	j := &g.room[0]
	g.room = g.room[1:]
	g.jobs = append(g.jobs, j)
	j.group, j.fn = g, g.f.fn
	j.self, j.target = j, g.f.target
	j.members.member = j
	return j
}

func (g *FuncGroup[A, R]) stopCause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// revoke ends a waiting task, and cancels the context of a running one.
func (j *groupJob[A, R]) revoke(cause error) {
	if j.accepted.Load() {
		Future[R]{&j.result, 0}.Cancel(cause)
	}
}

// ended is called when the task is over.
func (j *groupJob[A, R]) ended() {
	if _, err := j.read(); err != nil {
		j.group.failed(j, err)
	}
	j.group.ended(1)
}

func (j *groupJob[A, R]) outcome() (value R, err error, accepted bool) {
	if j.refused {
		return value, nil, false
	}
	value, err = j.read()
	return value, err, true
}
