package process

import (
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// ErrNoWorker means that the pool has no worker of that name, or no longer has it.
var ErrNoWorker = errors.New("no such worker")

// WorkerInfo describes one worker.
type WorkerInfo struct {
	// Name is the name in [bullpen.Stats.Worker] and in events.
	Name string
	// PID is the process ID; 0 while there is no process.
	PID   int
	State WorkerState
	// Served counts the tasks that the worker has answered. InHand is the number of
	// tasks assigned to it, and Window the most that may be assigned to it.
	Served, InHand, Window int
	// Age is the time since the worker was started. Idle is how long it has had no
	// task; 0 if it has one or is not ready.
	Age, Idle time.Duration
	// Memory is the resident memory in bytes, including pages shared with others; 0 if
	// the system does not report it.
	Memory int64
	// TaskID, TaskName and TaskAge describe the oldest task assigned to the worker: the
	// running one if it runs one at a time. TaskAge is the time since it became the
	// oldest.
	TaskID, TaskName string
	TaskAge          time.Duration
	// Recycling reports whether the worker is being replaced.
	Recycling bool
}

// Workers returns the current workers, the oldest first. It holds the pool's lock for
// about 50 nanoseconds per worker, and then reads one system file per worker, about 7
// microseconds each.
func (p *Pool) Workers() []WorkerInfo {
	p.mu.Lock()
	now := p.now()
	all := make([]WorkerInfo, 0, len(p.workers))
	for _, w := range p.workers {
		if w.state.State() != WorkerGone {
			all = append(all, w.info(now))
		}
	}
	p.mu.Unlock()
	for i := range all {
		if all[i].PID == 0 {
			continue
		}
		if n, err := confine.RSS(all[i].PID); err == nil {
			all[i].Memory = n
		}
	}
	return all
}

// info describes w. Pool.mu is held.
func (w *worker) info(now int64) WorkerInfo {
	state := w.state.State()
	i := WorkerInfo{
		Name: w.name, State: state, Served: w.served, InHand: w.count + w.more, Age: time.Duration(now - w.born),
		Window: max(w.pool.window(), w.concurrency) * w.pool.config.each(), Recycling: w.spent || state == WorkerLeaving,
	}
	if !w.exited {
		i.PID = w.pid
	}
	if state == WorkerIdle {
		i.Idle = time.Duration(max(now-w.idleSince, 0))
	}
	if w.count == 0 {
		return i
	}
	if c := w.flight[int(w.oldest)&(len(w.flight)-1)]; c != nil && c.number == w.oldest {
		i.TaskID, i.TaskName = c.task.ID, c.task.Name
		if c.started > 0 {
			i.TaskAge = time.Duration(max(now-c.started, 0))
		}
	}
	return i
}

// Recycle replaces the worker of that name. Its successor is ready before it leaves,
// and it finishes the tasks assigned to it. Recycle does not wait for the replacement;
// the cause in events and statistics is [ByReload]. It returns [ErrNoWorker],
// [bullpen.ErrClosed] if the pool is ending, or [errors.ErrUnsupported] with the
// protocol Exec, whose processes run one task each.
func (p *Pool) Recycle(name string) error {
	if p.config.perTask {
		return fmt.Errorf("process: pool %s starts a process for each task, so there is no worker to replace: %w", p.config.Name, errors.ErrUnsupported)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.State() != Open {
		return bullpen.ErrClosed
	}
	for _, w := range p.workers {
		if w.name == name && w.state.State() != WorkerGone {
			p.flag(w, ByReload)
			return nil
		}
	}
	return fmt.Errorf("%w: pool %s has no worker %q: call Workers for the list", ErrNoWorker, p.config.Name, name)
}
