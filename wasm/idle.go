package wasm

import (
	"slices"
	"time"
)

// take returns the idle instance that was used last, or makes one. mu is held.
func (p *Pool) take() *instance {
	n := len(p.idle)
	if n == 0 {
		return p.newInstance()
	}
	i := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return i
}

// put keeps an instance for the next task. mu is held.
func (p *Pool) put(i *instance, now int64) {
	i.since = now
	p.idle = append(p.idle, i)
	if !p.pruning && len(p.idle) > p.config.Min {
		p.pruneIn(p.config.Idle)
	}
}

// pruneIn makes prune run after d. mu is held.
func (p *Pool) pruneIn(d time.Duration) {
	p.pruning = true
	if p.pruner == nil {
		p.pruner = time.AfterFunc(d, p.prune) // its goroutine ends at once; tryFinish stops the timer
	} else {
		p.pruner.Reset(d)
	}
}

// prune discards the instances beyond Min that have been idle for too long.
func (p *Pool) prune() {
	p.mu.Lock()
	p.pruning = false
	now := p.now()
	n := 0
	for n < len(p.idle)-p.config.Min && now-p.idle[n].since >= int64(p.config.Idle) {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	if len(p.idle) > p.config.Min && p.state.State() != Closed {
		p.pruneIn(max(time.Millisecond, p.config.Idle-time.Duration(now-p.idle[0].since)))
	}
	p.mu.Unlock()
	for _, i := range old {
		i.discard()
	}
}

// try makes one instance, which shows whether the module can have any. No code of the guest
// runs.
func (p *Pool) try() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.newInstance()
	i.equip()
	i.memory.bound = p.config.Limits.Memory / page * page
	err := i.instantiate(i.config)
	i.discard()
	p.put(i, p.now())
	return err
}
