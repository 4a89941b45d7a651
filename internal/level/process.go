package level

import (
	"iter"

	"github.com/bullpen-run/bullpen/process"
)

// processes is a pool of worker processes.
type processes struct{ *process.Pool }

func newProcesses(c process.Config) (Pool, error) {
	p, err := process.New(c)
	if err != nil {
		return nil, err
	}
	return processes{p}, nil
}

func (p processes) Config() Config {
	c := p.Pool.Config()
	return Config{
		Program: c.Command[0], Protocol: c.Protocol.String(), Min: c.Min, Max: c.Max, StartTimeout: c.StartTimeout,
		Budgeted: c.Budget != nil,
	}
}

func (p processes) Stats() Stats {
	s := p.Pool.Stats()
	deaths := make(map[string]uint64, len(s.Deaths))
	for cause, n := range s.Deaths {
		deaths[cause.String()] = n
	}
	return Stats{
		State: s.State.String(), Starting: s.Starting, Idle: s.Idle, Busy: s.Busy, Leaving: s.Leaving,
		Queued: s.Queued, Blocked: s.Blocked, InHand: s.InHand,
		Accepted: s.Accepted, NeverStarted: s.NeverStarted, Refused: s.Refused,
		Started: s.Started, Stopped: s.Stopped, FailedStarts: s.FailedStarts, Outcomes: s.Outcomes, Deaths: deaths,
		QueueTime: s.QueueTime, RunTime: s.RunTime, StartTime: s.StartTime,
	}
}

func (p processes) Workers() []Worker {
	infos := p.Pool.Workers()
	all := make([]Worker, len(infos))
	for i := range infos {
		w := &infos[i]
		all[i] = Worker{
			Name: w.Name, State: w.State.String(), PID: w.PID, Served: w.Served, InHand: w.InHand, Window: w.Window,
			Age: w.Age, Idle: w.Idle, TaskAge: w.TaskAge, Memory: w.Memory, TaskID: w.TaskID, TaskName: w.TaskName, Recycling: w.Recycling,
		}
	}
	return all
}

// kinds are the kinds of events that are passed on.
var kinds = [256]EventKind{
	process.Started: Started, process.Ready: Ready, process.Stopped: Ended, process.Died: Ended,
	process.StartFailed: StartFailed, process.Mended: Mended,
}

func (p processes) Events(buffer int) iter.Seq[Event] {
	feed := p.Pool.Events(buffer)
	return func(yield func(Event) bool) {
		defer feed.Close()
		for e := range feed.C {
			kind := kinds[e.Kind]
			if kind != 0 && !yield(Event{e.Time, kind, e.Worker, e.PID, e.Cause.String(), e.Text, e.Err}) {
				return
			}
		}
	}
}

func (p processes) show(m Metrics) error { return m.Processes.Replace(p.Pool) }
func (p processes) hide(m Metrics)       { m.Processes.Remove(p.Pool) }
