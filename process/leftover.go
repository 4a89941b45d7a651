package process

import (
	"fmt"
	"os"
)

// leftover is what an ended Exec process leaves to clean up. That happens after the
// next process in its slot has started, so that it need not wait.
type leftover struct {
	pipes     [2]*os.File
	isolation isolation
}

// tidy cleans up after earlier processes of the worker. It keeps an untouched temporary
// folder for the next process, because creating and removing one takes as long as
// starting a process.
func (d *execDriver) tidy() {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	left := d.left
	d.left = nil
	spare := d.spare == ""
	p.mu.Unlock()
	for _, l := range left {
		for _, f := range l.pipes {
			if f != nil {
				_ = f.Close()
			}
		}
		if spare && l.isolation.temp != "" && p.config.Sandbox.Profile != ProfileStrict && untouched(l.isolation.temp) {
			p.mu.Lock()
			if s := w.state.State(); d.spare == "" && (s == WorkerIdle || s == WorkerBusy) {
				d.spare, l.isolation.temp = l.isolation.temp, ""
			}
			p.mu.Unlock()
			spare = false
		}
		if l.isolation == (isolation{}) {
			continue
		}
		p.tasks.Go(func() { // ends when the folder is removed, which may take long
			if err := p.freeIsolation(&l.isolation); err != nil {
				p.logs.fault(fmt.Errorf("process of %s: removing what it left behind: %w", w.name, err))
			}
		})
	}
}
