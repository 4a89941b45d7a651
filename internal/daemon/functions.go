package daemon

import (
	"context"
	"net"
	"net/http"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/invoke"
	"github.com/bullpen-run/bullpen/job"
)

// functions are the pools as the Lambda front sees them.
type functions struct{ backend }

var _ invoke.Backend = functions{}

// Function is as in [invoke.Backend].
func (d functions) Function(name string) (f invoke.Function, ok bool) {
	p, err := d.find(name)
	if err != nil {
		return f, false
	}
	s := p.config()
	f.Timeout, f.Memory, f.EventAge = s.Process.Limits.Timeout, s.Process.Limits.Memory, s.EventAge
	switch {
	case p.generation() == nil:
		f.Refuses = "The pool " + name + " has no workers here: give it a command in bullpen.yaml, or invoke it with the type Event, which another node runs."
	case !s.Ephemeral:
		f.Refuses = "The pool " + name + " takes events only: set ephemeral: true for it in bullpen.yaml, or invoke it with the type Event."
	}
	return f, true
}

// Run is as in [invoke.Backend].
func (d functions) Run(ctx context.Context, function string, t bullpen.Task) (bullpen.Result, error) {
	_, r, err := d.backend.Run(ctx, function, t)
	return r, err
}

// Enqueue is as in [invoke.Backend].
func (d functions) Enqueue(ctx context.Context, j job.Job) (job.Ref, error) {
	j, err := d.Complete(j.Queue, j)
	if err != nil {
		return job.Ref{}, err
	}
	ref, err := d.queue.Enqueue(ctx, j)
	return ref, shownError(err)
}

// openLambda starts to serve the address of the Lambda front.
func (d *Daemon) openLambda(ctx context.Context) error {
	l, err := d.access.ListenLambda(ctx)
	if err != nil {
		return &OpenError{"the address of the Lambda front", taken(err, "lambda.listen")}
	}
	d.lambda = d.serveFront(ctx, l, d.access.WrapLambda(nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		invoke.Answer(w, d.starting())
	}), invoke.Answer))
	return nil
}

// serveLambda lets the Lambda front serve requests.
func (d *Daemon) serveLambda() {
	s := d.config()
	f := invoke.New(invoke.Config{
		Backend: functions{backend{d}}, Keys: d.keys, Account: s.Lambda.Account, Region: s.Lambda.Region,
		MaxEvent: s.Queue.MaxPayload,
	})
	d.lambda.after = d.access.WrapLambda(d.tracer.Routes(f.Routes()), http.HandlerFunc(invoke.Fallback), invoke.Answer)
	close(d.lambda.open)
}

// LambdaAddr returns the address of the Lambda front, or nil without one.
func (d *Daemon) LambdaAddr() net.Addr {
	if d.lambda == nil {
		return nil
	}
	return d.lambda.listener.Addr()
}
