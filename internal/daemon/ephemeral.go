package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
)

// errTakenBack is the cause of a task that was canceled by its id.
var errTakenBack = fmt.Errorf("it was canceled: %w", context.Canceled)

// runs are the ephemeral tasks that run here, by id.
type runs struct {
	mu  sync.Mutex
	all map[string]context.CancelCauseFunc // guarded by mu
}

// begin adds a task. It returns false if a task with its id is already running.
func (r *runs) begin(id string, cancel context.CancelCauseFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]context.CancelCauseFunc{}
	}
	if r.all[id] != nil {
		return false
	}
	r.all[id] = cancel
	return true
}

func (r *runs) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}

// cancel cancels a task and reports whether it was running.
func (r *runs) cancel(id string) bool {
	r.mu.Lock()
	cancel := r.all[id]
	r.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel(errTakenBack)
	return true
}

// Run is as in [api.Backend].
func (d backend) Run(ctx context.Context, name string, t bullpen.Task) (id string, r bullpen.Result, err error) {
	p, err := d.find(name)
	if err != nil {
		return t.ID, r, err
	}
	s := p.config()
	switch {
	case p.generation() == nil:
		return t.ID, r, fmt.Errorf("%w: %q", api.ErrQueueOnly, name)
	case !s.Ephemeral:
		return t.ID, r, fmt.Errorf("%w: %q", api.ErrNotEphemeral, name)
	}
	if t.Name == "" {
		t.Name = s.Task
	}
	if t.ID == "" {
		t.ID = "run-" + ulid.Make().String() // it must not look like a job's id
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !d.runs.begin(t.ID, cancel) {
		return t.ID, r, fmt.Errorf("%w: %s", api.ErrBusyID, t.ID)
	}
	defer d.runs.end(t.ID)
	r, err = d.execute(ctx, p, t)
	if errors.Is(err, live.ErrLive) { // a job has that id
		err = fmt.Errorf("%w: %s", api.ErrBusyID, t.ID)
	}
	return t.ID, r, shownError(err)
}

// execute runs t on the workers of p. If a reload replaces them before t has started,
// it runs t on the new ones.
func (d *Daemon) execute(ctx context.Context, p *pool, t bullpen.Task) (bullpen.Result, error) {
	for {
		if d.state.State() != Serving {
			return bullpen.Result{}, fmt.Errorf("the daemon is %v: %w", d.state.State(), bullpen.ErrClosed)
		}
		g := p.generation()
		if g == nil {
			return bullpen.Result{}, fmt.Errorf("%w: %q", api.ErrQueueOnly, p.name)
		}
		r, err := bullpen.Execute(ctx, g.direct, t)
		if _, started := bullpen.OutcomeOf(err); started || !errors.Is(err, bullpen.ErrClosed) || p.generation() == g {
			return r, err
		}
	}
}

// CancelRun is as in [api.Backend].
func (d backend) CancelRun(id string) bool { return d.runs.cancel(id) }
