package pool

import (
	"slices"

	"github.com/bullpen-run/bullpen"
)

// Stats is a snapshot of a pool. Its numbers are read one after the other while
// the pool works, so that they belong to nearly the same moment; where nothing
// happens they add up exactly.
type Stats struct {
	State State

	// Min and Max are the bounds of the number of workers.
	Min, Max int
	// Size workers have a place: Idle ones are parked, Searching ones look for
	// a task, Busy ones have one.
	Size, Idle, Searching, Busy int
	// Callers run tasks in goroutines of their own: CallerRuns and Help.
	Callers int
	// Stuck bodies run on although their tasks were answered. Up to Config.Stuck
	// of them have no place among Size; those beyond keep their workers busy.
	Stuck int
	// Nesting tasks have handed work to this pool; for each there may be one
	// worker more than Max.
	Nesting int

	// Queued tasks wait: in the pool's queue, in the queues of lanes, for their
	// time (Delayed), and in the hands of workers behind the one that runs.
	Queued, Delayed int
	// Blocked callers wait for a place in a queue.
	Blocked int

	// Accepted tasks are those that have ended, run or wait. While short tasks
	// run it may be behind by up to 63 for each worker.
	Accepted uint64
	// Outcomes of the tasks that have started: how many had which. An outcome that
	// none had is missing.
	Outcomes map[bullpen.Outcome]uint64
	// NeverStarted tasks were accepted and ended without being started.
	NeverStarted uint64
	// Refused tasks were not accepted: closed, overloaded, the caller's context.
	Refused uint64
	// Overruns are the tasks that were answered while their bodies ran on, and
	// Late the bodies among these that have returned.
	Overruns, Late uint64
	// Helped tasks were run by callers.
	Helped uint64
	// LostLogLines were dropped because the logger was slower than the pool.
	LostLogLines uint64

	// Tasks has the same by the name of the task; tasks without a name are "task".
	Tasks map[string]TaskStats
	// Lanes of the pool, in the order in which they were made. What they count is
	// in the figures above, too.
	Lanes []LaneStats
}

// TaskStats are the tasks of one name.
type TaskStats struct {
	Outcomes     map[bullpen.Outcome]uint64 // as in Stats
	NeverStarted uint64
	// Wait is the time from acceptance to start, Run that of the body. Tasks of
	// less than about five microseconds are measured by sample; see [bullpen.Histogram].
	Wait, Run bullpen.Histogram
}

// Stats returns a snapshot. It takes each of the pool's locks for about a
// microsecond, waits for no task, and costs about a microsecond for each name of
// tasks and processor. Tasks pay nothing for it.
func (p *Pool) Stats() Stats {
	h, t := p.handsNow(), &p.tallies
	s := Stats{
		State: p.state.State(), Min: int(p.min.Load()), Max: int(p.max.Load()),
		Callers: int(max(p.guests.Load(), 0)), Stuck: int(p.stuck.Load()), Nesting: int(p.nesting.Load()),
		Blocked: int(t.blocked.Load()), Refused: t.refused.Load(), Overruns: t.overruns.Load(), Late: t.late.Load(),
		Helped: t.helped.Load(), LostLogLines: p.journal.lost.Load(),
		Tasks: map[string]TaskStats{}, Outcomes: map[bullpen.Outcome]uint64{},
	}
	s.Size, s.Idle, s.Searching, s.Busy = h.size(), h.parked(), h.searching(), h.busy()
	for _, k := range t.all() {
		task := k.snapshot()
		s.Tasks[k.name] = task
		s.NeverStarted += task.NeverStarted
		for o, n := range task.Outcomes {
			s.Outcomes[o] += n
		}
	}
	answered := 0 // busy workers whose task has its outcome
	for _, w := range p.seats(nil) {
		if w.flags.Load()&(flagStuck|flagLost) == flagStuck {
			answered++
		}
		first, end := w.held()
		s.Queued += end - first
	}
	s.Delayed = int(p.delayed.n.Load())
	s.Queued += p.waiting()
	p.mu.Lock()
	lanes := slices.Clone(p.lanes)
	p.mu.Unlock()
	for _, l := range lanes {
		s.Lanes = append(s.Lanes, l.Stats())
	}
	s.Accepted = s.Total() + uint64(s.Queued+max(s.Busy-answered, 0)+s.Callers)
	return s
}

// all returns the kinds that there are.
func (t *tallies) all() []*kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*kind, 0, len(t.kinds))
	for _, k := range t.kinds {
		all = append(all, k)
	}
	return all
}

// snapshot adds up what the stripes have.
func (k *kind) snapshot() TaskStats {
	s := TaskStats{NeverStarted: k.never.Load(), Outcomes: map[bullpen.Outcome]uint64{}}
	for i := range k.stripes {
		from := &k.stripes[i]
		for o := range from.outcomes {
			if n := from.outcomes[o].Load(); n > 0 {
				s.Outcomes[bullpen.Outcome(o)] += n
			}
		}
		from.wait.addTo(&s.Wait)
		from.run.addTo(&s.Run)
	}
	return s
}

// count is how many live items lie in the queues of a gate. Empty queues have none,
// also in the moment when dead is below zero.
func (g *gate) count() int {
	n := 0
	for _, q := range g.queues {
		q.out.mu.Lock()
		q.in.mu.Lock()
		for pr := range q.in.levels {
			n += q.in.levels[pr].n + q.out.levels[pr].n
		}
		q.in.mu.Unlock()
		q.out.mu.Unlock()
	}
	return min(max(n-int(g.dead.Load()), 0), n)
}

// Total returns the number of tasks that have ended, started or not.
func (s Stats) Total() uint64 { return total(s.Outcomes, s.NeverStarted) }

// Failed returns the number of tasks that did not end with a result.
func (s Stats) Failed() uint64 { return s.Total() - s.Outcomes[bullpen.OK] }

// Total returns the number of tasks that have ended, started or not.
func (s TaskStats) Total() uint64 { return total(s.Outcomes, s.NeverStarted) }

// Failed returns the number of tasks that did not end with a result.
func (s TaskStats) Failed() uint64 { return s.Total() - s.Outcomes[bullpen.OK] }

func total(outcomes map[bullpen.Outcome]uint64, never uint64) uint64 {
	for _, o := range outcomes {
		never += o
	}
	return never
}
