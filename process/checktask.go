package process

import "github.com/bullpen-run/bullpen"

var _ bullpen.Checker = (*Pool)(nil)

// Check reports why no worker of the pool could take t, see [bullpen.Checker]. Names
// and sizes are those of the worker that became ready last.
func (p *Pool) Check(t bullpen.Task) error {
	var c call
	if err := p.fill(&c, t); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(&c.task); err != nil {
		return err
	}
	return p.fits(&c)
}
