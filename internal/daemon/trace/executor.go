package trace

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/logs"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// executor traces the tasks of another one.
type executor struct {
	bullpen.Executor

	tracer *Tracer
	pool   string
	starts *Starts
	jobs   bool
}

// Wrap returns e with the attempts of jobs traced; it must be placed directly below
// the queue. starts are those of its workers, or nil.
func (t *Tracer) Wrap(pool string, e bullpen.Executor, starts *Starts) bullpen.Executor {
	if t == nil {
		return e
	}
	return &executor{e, t, pool, starts, true}
}

// WrapEphemeral is Wrap for tasks that are not jobs.
func (t *Tracer) WrapEphemeral(pool string, e bullpen.Executor, starts *Starts) bullpen.Executor {
	if t == nil {
		return e
	}
	return &executor{e, t, pool, starts, false}
}

// Room returns that of the inner executor.
func (x *executor) Room() <-chan struct{} { return bullpen.Room(x.Executor) }

// attempt is one traced task.
type attempt struct {
	tracer    *Tracer
	at        position
	run       Context // context of the run, which the worker gets
	task      bullpen.Task
	pool      string
	starts    *Starts
	job       bool
	delivered job.Delivered
	accepted  time.Time
}

// begin prepares t: its worker gets the run's traceparent. It returns nil if t is not
// traced.
func (x *executor) begin(t *bullpen.Task) *attempt {
	job := x.jobs && t.ID != ""
	at := x.tracer.position(job, t)
	if _, has := t.Meta[metaParent]; has && !at.Sampled {
		return nil // the traceparent tells the worker that the trace is not sampled
	}
	run := Context{at.Trace, newSpanID(), at.Sampled}
	meta := make(map[string]string, len(t.Meta)+1)
	maps.Copy(meta, t.Meta)
	meta[metaParent] = run.String()
	t.Meta = meta
	if !at.Sampled {
		return nil
	}
	a := &attempt{
		tracer: x.tracer, at: at, run: run, pool: x.pool, starts: x.starts, job: job, accepted: time.Now(),
		task: bullpen.Task{ID: t.ID, Name: t.Name},
	}
	if job {
		a.delivered = queue.AttemptOf(*t)
	}
	x.tracer.known.begin(t.ID, at.Trace)
	return a
}

// Submit submits t.
func (x *executor) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	a := x.begin(&t)
	if a == nil || done == nil {
		return x.Executor.Submit(ctx, t, done)
	}
	err := x.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
		a.end(&r, err)
		done(r, err)
	})
	if err != nil {
		a.end(&bullpen.Result{}, err)
	}
	return err
}

// Execute runs t and waits for its outcome.
func (x *executor) Execute(ctx context.Context, t bullpen.Task) (bullpen.Result, error) {
	a := x.begin(&t)
	r, err := bullpen.Execute(ctx, x.Executor, t)
	if a != nil {
		a.end(&r, err)
	}
	return r, err
}

// end exports the spans of the attempt. A job that was not started goes back to its
// queue; the span of its wait is left to the node that starts or ends it.
func (a *attempt) end(r *bullpen.Result, err error) {
	defer a.tracer.known.end(a.task.ID)
	now := time.Now()
	outcome, started := bullpen.OutcomeOf(err)
	if !started {
		if !a.job {
			wait := a.wait(now)
			wait.text(keyOutcome, outcomeWord(outcome, false))
			if !errors.Is(err, context.Canceled) {
				wait.text(keyError, outcomeWord(outcome, false))
				wait.fail(neverStarted(err))
			}
			a.tracer.exporter.put(wait)
		}
		return
	}
	begun := a.accepted.Add(r.Stats.Waited)
	wait, run := a.wait(begun), a.ran(r, outcome, err)
	run.between(begun, now)
	run.starts, run.waiting, run.accepted = a.starts, wait.id, a.accepted
	a.tracer.exporter.put(wait, run)
}

// wait returns the span of the time before the run.
func (a *attempt) wait(until time.Time) span {
	s := a.at.below("wait", kindConsumer)
	since := a.accepted
	if a.job && !a.delivered.Since.IsZero() {
		since = a.delivered.Since
	}
	s.between(since, until)
	a.describe(&s)
	if a.delivered.Due.After(since) {
		s.text(keyDue, instant(a.delivered.Due))
	}
	return s
}

// describe adds the attributes of the attempt to a span.
func (a *attempt) describe(s *span) {
	s.text("messaging.system", "bullpen")
	s.text("messaging.destination.name", a.pool)
	s.text(keyPool, a.pool)
	s.text(keyTask, a.task.Name)
	if !a.job {
		s.text(keyRun, a.task.ID)
		return
	}
	s.text("messaging.message.id", a.task.ID)
	s.text(keyJob, a.task.ID)
	s.number(keyAttempt, int64(a.delivered.Attempt))
}

// ran returns the span of the run, without its times.
func (a *attempt) ran(r *bullpen.Result, outcome bullpen.Outcome, err error) span {
	s := a.at.below(named("run", a.task.Name), kindConsumer)
	s.id = a.run.Span
	a.describe(&s)
	s.flag(keyAgain, a.delivered.Redelivered)
	s.text(keyOutcome, outcome.String())
	s.text(keyNode, a.tracer.node)
	s.worker = r.Stats.Worker
	var te *bullpen.TaskError
	if errors.As(err, &te) {
		if te.Worker != "" {
			s.worker = te.Worker
		}
		s.text(keySignal, te.Signal)
		if te.ExitCode >= 0 && (outcome == bullpen.Crashed || outcome == bullpen.Memory) && te.Signal == "" {
			s.number(keyExit, int64(te.ExitCode))
		}
		if outcome != bullpen.Canceled {
			kind := te.Type
			if kind == "" {
				kind = outcome.String()
			}
			s.text(keyError, kind)
			s.fail(firstLine(err))
		}
	}
	s.text(keyWorker, s.worker)
	if r.Stats.PeakMemory > 0 {
		s.number(keyPeak, r.Stats.PeakMemory)
	}
	if r.Stats.Ran > 0 {
		s.seconds(keyRan, r.Stats.Ran)
	}
	return s
}

// firstLine returns the first line of an error, without what looks like a secret.
func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return logs.Clean(line)
}

// neverStarted returns why a task did not start, in few words: the complete error may
// have the worker's command line, which must not go to a collector.
func neverStarted(err error) string {
	for _, why := range []error{bullpen.ErrStart, bullpen.ErrOverloaded, bullpen.ErrUnknownTask, bullpen.ErrRefused, bullpen.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, why) {
			return why.Error()
		}
	}
	return "it did not start"
}
