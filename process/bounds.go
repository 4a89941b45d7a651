package process

import (
	"fmt"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// MemoryError is the cause of the outcome memory: the worker needed more than
// Limits.Memory and was killed.
type MemoryError struct {
	// Bound is Limits.Memory, in bytes.
	Bound int64
	// Peak is the largest amount of memory that the worker used, in bytes. If the
	// kernel keeps the bound, it includes everything that the worker started and its
	// files in memory; if the pool watches memory, it is the resident memory of the
	// worker alone.
	Peak int64
}

// Error returns both in human-readable units.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("the worker reached its memory limit of %s (peak %s)", bytesText(e.Bound), bytesText(e.Peak))
}

func bytesText(n int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case n >= 10*mib:
		return fmt.Sprintf("%d MiB", n/mib)
	case n >= 10*kib:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}

// shellKilled is the exit status of a shell whose command was killed.
const shellKilled = 128 + int(syscall.SIGKILL)

// starved reports whether the kernel killed a process with this exit for its memory. An
// OOM kill in its group is not enough: the victim may have been an earlier child.
func starved(u confine.Usage, exit confine.Exit) bool {
	return u.OOMKills > 0 && (exit.Signal == syscall.SIGKILL || exit.Code == shellKilled)
}

// starved reports whether w died because it reached its memory bound. Pool.mu is held.
func (w *worker) starved() bool {
	if w.killed {
		return w.cause == ByBound
	}
	return starved(w.usage, w.exit)
}

// bound applies the memory and CPU limits of a task, or returns why they cannot be
// kept. A process of one task may have lower limits than others; the limits of a worker
// apply to all its tasks.
func (p *Pool) bound(c *call, l bullpen.Limits) error {
	own := p.config.Limits
	for _, b := range []struct {
		name        string
		asked, kept float64
	}{
		{"Memory", float64(l.Memory), float64(own.Memory)},
		{"CPU", l.CPU, own.CPU},
	} {
		switch {
		case b.asked == 0:
		case b.kept == 0:
			return fmt.Errorf("%w: it has a %s limit, which this pool does not enforce: set Limits.%s in the configuration of the pool", bullpen.ErrRefused, b.name, b.name)
		case b.asked < b.kept && !p.config.perTask:
			return fmt.Errorf("%w: its %s limit is below that of the pool's workers, which also run other tasks: use a separate pool", bullpen.ErrRefused, b.name)
		}
	}
	if l.Memory > 0 {
		c.memory = min(l.Memory, own.Memory)
	}
	if l.CPU > 0 {
		c.cpu = min(l.CPU, own.CPU)
	}
	return nil
}

// boundsOf returns the bounds of the Exec process for c.
func (p *Pool) boundsOf(c *call) confine.Bounds {
	b := p.config.bounds()
	b.Memory, b.CPU = c.memory, c.cpu
	return b
}

// watchEvery is the interval at which memory is measured where the kernel keeps no
// bound.
const watchEvery = 10 * time.Millisecond

// tendBounds kills workers above their memory bound where the kernel does not. Pool.mu
// is held.
func (p *Pool) tendBounds(now int64) {
	if p.unbound == nil {
		return
	}
	for _, w := range p.workers {
		switch w.state.State() {
		case WorkerIdle, WorkerGone:
		default:
			p.wakeBy(now + int64(watchEvery))
		}
		if w.bound == 0 || w.pid == 0 || w.exited || w.killed {
			continue
		}
		n, err := confine.RSS(w.pid)
		if err != nil {
			continue // it has ended
		}
		if w.usage.Peak = max(w.usage.Peak, n); n > w.bound {
			p.kill(w, ByBound, nil)
		}
	}
}
