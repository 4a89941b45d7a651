package pool

import (
	"slices"

	"github.com/bullpen-run/bullpen"
)

// Stats is a snapshot of a pool. Its numbers are read one after another while the pool
// works, so they may differ slightly in time. If the pool is idle, they add up exactly.
type Stats struct {
	State State

	// Min and Max are the bounds of the number of workers.
	Min, Max int
	// Size is the number of workers, not counting replaced ones. Idle workers are parked,
	// Searching workers look for a task, Busy workers have one.
	Size, Idle, Searching, Busy int
	// Callers counts the tasks that callers run in their own goroutines (CallerRuns and
	// Help).
	Callers int
	// Stuck counts the bodies that go on although their tasks were answered. The workers of
	// up to Config.Stuck of them were replaced and are not counted in Size; the others are
	// busy.
	Stuck int
	// Nesting counts the tasks that have submitted to this pool. For each of them, the pool
	// may run one worker more than Max.
	Nesting int

	// Queued counts the waiting tasks: in the pool's queue, in the queues of lanes, before
	// their time (Delayed), and taken by workers in advance.
	Queued, Delayed int
	// Blocked counts the callers that wait for a place in a queue.
	Blocked int

	// Accepted counts the tasks that have ended, run or wait. While short tasks run, it may
	// lag by up to 63 for each worker.
	Accepted uint64
	// Outcomes counts the tasks that have started, by outcome. Outcomes that did not occur
	// are missing.
	Outcomes map[bullpen.Outcome]uint64
	// NeverStarted counts the tasks that were accepted and ended without being started.
	NeverStarted uint64
	// Refused counts the tasks that were not accepted: the pool was closed or overloaded,
	// or the caller's context had ended.
	Refused uint64
	// Overruns counts the tasks that were answered while their bodies kept running. Late counts
	// those bodies that have returned.
	Overruns, Late uint64
	// Helped counts the tasks that callers ran.
	Helped uint64
	// LostLogLines counts the events dropped because the logger was too slow.
	LostLogLines uint64

	// Tasks has the statistics of each task name. Tasks without a name are counted as
	// "task".
	Tasks map[string]TaskStats
	// Lanes lists the lanes in the order in which they were made. Their tasks are also
	// included in the numbers above.
	Lanes []LaneStats
}

// TaskStats are the statistics of the tasks of one name.
type TaskStats struct {
	Outcomes     map[bullpen.Outcome]uint64 // as in Stats
	NeverStarted uint64
	// Wait is the time from acceptance to start, Run that of the body. Tasks of
	// less than about five microseconds are measured by sample; see [bullpen.Histogram].
	Wait, Run bullpen.Histogram
}

// Stats returns a snapshot. It holds each of the pool's locks for about a microsecond and
// waits for no task. It costs about a microsecond for each task name and processor. Tasks
// pay nothing for it.
func (p *Pool) Stats() Stats {
	h, t := p.counts(), &p.counters
	s := Stats{
		State: p.state.State(), Min: int(p.min.Load()), Max: int(p.max.Load()),
		Callers: int(max(p.guests.Load(), 0)), Stuck: int(p.stuck.Load()), Nesting: int(p.nesting.Load()),
		Blocked: int(t.blocked.Load()), Refused: t.refused.Load(), Overruns: t.overruns.Load(), Late: t.late.Load(),
		Helped: t.helped.Load(), LostLogLines: p.journal.log.Lost(),
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
	answered := 0 // busy workers whose task was answered
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

// all returns all kinds.
func (t *counters) all() []*kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*kind, 0, len(t.kinds))
	for _, k := range t.kinds {
		all = append(all, k)
	}
	return all
}

// snapshot adds up the counts of all stripes.
func (k *kind) snapshot() TaskStats {
	s := TaskStats{NeverStarted: k.never.Load(), Outcomes: map[bullpen.Outcome]uint64{}}
	for i := range k.stripes {
		from := &k.stripes[i]
		for o := range from.outcomes {
			if n := from.outcomes[o].Load(); n > 0 {
				s.Outcomes[bullpen.Outcome(o)] += n
			}
		}
		from.wait.AddTo(&s.Wait)
		from.run.AddTo(&s.Run)
	}
	return s
}

// count returns how many live items wait in the queues of an admission. It is never negative,
// even while dead is below zero.
func (g *admission) count() int {
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

// Failed returns the number of tasks that ended without a result.
func (s Stats) Failed() uint64 { return s.Total() - s.Outcomes[bullpen.OK] }

// Total returns the number of tasks that have ended, started or not.
func (s TaskStats) Total() uint64 { return total(s.Outcomes, s.NeverStarted) }

// Failed returns the number of tasks that ended without a result.
func (s TaskStats) Failed() uint64 { return s.Total() - s.Outcomes[bullpen.OK] }

func total(outcomes map[bullpen.Outcome]uint64, never uint64) uint64 {
	for _, o := range outcomes {
		never += o
	}
	return never
}
