package process

import "github.com/bullpen-run/bullpen"

var _ bullpen.Checker = (*Pool)(nil)

// Check returns why no worker of the pool could take t, see [bullpen.Checker]. It
// checks names and sizes against the worker that last became ready.
func (p *Pool) Check(t bullpen.Task) error {
	var c call
	if err := p.fill(&c, t); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.check(&c)
}
