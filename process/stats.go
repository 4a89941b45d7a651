package process

import (
	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// Stats is a snapshot of a pool. Times are those of tasks that have ended.
type Stats struct {
	State State

	// Queued tasks wait in the queue, Blocked callers wait for a place in it, and
	// InHand tasks are assigned to workers.
	Queued, Blocked, InHand int
	// Starting, Idle, Busy and Leaving are the numbers of workers in these states. The
	// processes of leaving workers still exist.
	Starting, Idle, Busy, Leaving int
	// Window is the number of tasks that may be assigned to one worker now.
	Window int

	// Accepted counts the accepted tasks. Outcomes counts the ended ones by outcome,
	// without outcomes that did not occur. NeverStarted counts those that ended without
	// having started.
	Accepted     uint64
	Outcomes     map[bullpen.Outcome]uint64
	NeverStarted uint64
	// Refused counts tasks that were not accepted: pool closed or overloaded, limits,
	// unknown name.
	Refused uint64
	// Replayed counts tasks that went back to the head of the queue because their
	// worker died before starting them, or had not started them when they were taken
	// back.
	Replayed uint64

	// Started counts the workers that were started, Stopped those that have ended as
	// planned. Stops counts planned ends by cause, Deaths unexpected ones.
	Started, Stopped uint64
	Stops, Deaths    map[Cause]uint64
	FailedStarts     uint64
	// LostLogLines counts lines dropped because the logger was slower than the workers.
	LostLogLines uint64
	// LimitedLogLines counts lines not logged because their workers exceeded
	// Config.LogRate.
	LimitedLogLines uint64

	// Where the time went. Blocked: from Submit to a place in the queue, for
	// tasks that had to wait for one. Queue: from there to the hand-over.
	// Running: the handler, by the worker's clock. Return: all of the time
	// between hand-over and outcome that was not running: both ways through the
	// pipe, and waiting in the worker behind tasks in hand. Start: of workers,
	// from start to ready.
	BlockedTime, QueueTime, RunTime, ReturnTime, StartTime bullpen.Histogram
}

// counters are those of Stats. Pool.mu guards it.
type counters struct {
	accepted, neverStarted, refused, replayed uint64
	outcomes                                  [bullpen.OutcomeCount]uint64
	aborted                                   aborted
	started, stopped, failedStarts            uint64
	stops, deaths                             [causes]uint64
	blocked, queue, run, back, start          bullpen.Histogram
}

// Stats returns a snapshot. It holds the pool's lock for about a microsecond.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &p.counters
	s := Stats{
		State: p.state.State(), Queued: p.queue.n, Blocked: p.blockedCallers(), InHand: p.inHand,
		Starting: p.starting, Idle: len(p.idle), Leaving: p.leaving,
		Window: p.window() * p.config.each(), Accepted: t.accepted, Outcomes: byOutcome(&t.outcomes),
		NeverStarted: t.neverStarted, Refused: t.refused, Replayed: t.replayed,
		Started: t.started, Stopped: t.stopped, FailedStarts: t.failedStarts,
		Stops: byCause(&t.stops), Deaths: byCause(&t.deaths), LostLogLines: p.logs.lost.Load(), LimitedLogLines: p.logs.over.Load(),
		BlockedTime: t.blocked, QueueTime: t.queue, RunTime: t.run, ReturnTime: t.back, StartTime: t.start,
	}
	s.Busy = p.inState(WorkerBusy)
	return s
}

func byOutcome(counts *[bullpen.OutcomeCount]uint64) map[bullpen.Outcome]uint64 {
	m := map[bullpen.Outcome]uint64{}
	for o, n := range counts {
		if n > 0 {
			m[bullpen.Outcome(o)] = n
		}
	}
	return m
}

func byCause(counts *[causes]uint64) map[Cause]uint64 {
	m := map[Cause]uint64{}
	for cause, n := range counts {
		if n > 0 {
			m[Cause(cause)] = n
		}
	}
	return m
}

// Memory returns the resident memory of all workers in bytes, and how many workers
// could be measured: 0 if the system does not report it. Shared pages count for each
// worker. Memory reads one system file per worker, about 7 microseconds each, without
// blocking the pool.
func (p *Pool) Memory() (bytes int64, measured int) {
	p.mu.Lock()
	pids := make([]int, 0, len(p.workers))
	for _, w := range p.workers {
		if w.pid != 0 && !w.exited {
			pids = append(pids, w.pid)
		}
	}
	p.mu.Unlock()
	for _, pid := range pids {
		if n, err := confine.RSS(pid); err == nil {
			bytes += n
			measured++
		}
	}
	return bytes, measured
}

// inState counts the workers in a state. A dead worker stays listed until its tasks are
// delivered, because it keeps its slot until then. Pool.mu is held.
func (p *Pool) inState(state WorkerState) (n int) {
	for _, w := range p.workers {
		if w.state.State() == state {
			n++
		}
	}
	return n
}

// Total returns the number of tasks that have ended, started or not.
func (s Stats) Total() uint64 {
	n := s.NeverStarted
	for _, o := range s.Outcomes {
		n += o
	}
	return n
}

// Failed returns the number of tasks that did not end with a result.
func (s Stats) Failed() uint64 { return s.Total() - s.Outcomes[bullpen.OK] }
