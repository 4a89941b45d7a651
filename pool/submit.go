package pool

import "context"

// Go submits fn, a short task without a result. It cannot be interrupted, has no context,
// and its outcome appears only in counts and events (a panic ends the task, not the
// program). If you need more, use [Submit], [NewFunc] or a group.
//
// An error means that the task was not accepted. Go allocates nothing.
func (p *Pool) Go(ctx context.Context, fn func()) error {
	if fn == nil {
		return errNil
	}
	return p.main.put(ctx, nil, closure(fn))
}

// Go is [Pool.Go] with the options of p. It allocates two words if they have a name.
func (p Submitter) Go(ctx context.Context, fn func()) error {
	if fn == nil {
		return errNil
	}
	return p.target.put(ctx, nil, p.target.closure(fn))
}

func (at *target) closure(fn func()) item {
	if at.kind == at.pool.main.kind {
		return closure(fn)
	}
	return &namedClosure{fn, at.kind}
}

// GoAll submits many short tasks at once, for a third of the cost each. It returns how many
// of them were accepted, from the first on, and an error if not all were.
func (p *Pool) GoAll(ctx context.Context, fns []func()) (int, error) {
	for _, fn := range fns {
		if fn == nil {
			return 0, errNil
		}
	}
	if len(fns) == 0 {
		return 0, nil
	}
	if err := p.main.enter(ctx); err != nil {
		return 0, err
	}
	sent := 0
	for sent < len(fns) {
		q := p.shard()
		q.in.mu.Lock()
		before := sent
		for sent < len(fns) && q.in.room > 0 {
			q.push(Normal, closure(fns[sent]))
			sent++
		}
		q.in.mu.Unlock()
		if sent > before {
			p.call()
			continue
		}
		if err := p.main.put(ctx, nil, closure(fns[sent])); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}
