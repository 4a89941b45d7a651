package process

import (
	"fmt"
	"os"
)

// leftover is what a process (Exec) leaves to be put away. That is done once the next
// one in its place has been started, which need not wait for it.
type leftover struct {
	pipes     [2]*os.File
	isolation isolation
}

// leave keeps l until somebody puts it away. Pool.mu is held.
func (w *worker) leave(l leftover) { w.left = append(w.left, l) }

// tidy puts away what earlier processes of the place w left. A temporary folder that is
// as it was made is kept for the next one: to make and remove one costs as much as to
// start a process.
func (p *Pool) tidy(w *worker) {
	p.mu.Lock()
	left := w.left
	w.left = nil
	spare := w.spare == ""
	p.mu.Unlock()
	for _, l := range left {
		for _, f := range l.pipes {
			if f != nil {
				_ = f.Close()
			}
		}
		if spare && l.isolation.temp != "" && p.config.Sandbox.Profile != ProfileStrict && untouched(l.isolation.temp) {
			p.mu.Lock()
			if s := w.state.State(); w.spare == "" && (s == WorkerIdle || s == WorkerBusy) {
				w.spare, l.isolation.temp = l.isolation.temp, ""
			}
			p.mu.Unlock()
			spare = false
		}
		if l.isolation == (isolation{}) {
			continue
		}
		p.tasks.Go(func() { // ends when it is removed, which may take long
			if err := p.freeIsolation(&l.isolation); err != nil {
				p.logs.fault(fmt.Errorf("process of %s: what it left behind: %w", w.name, err))
			}
		})
	}
}
