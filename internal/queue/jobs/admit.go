package jobs

import (
	"fmt"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Check is that of a queue.
func (q *Jobs) Check(j job.Job) error {
	if err := q.Config.checkJob(&j); err != nil {
		return err
	}
	return q.Admit(&j, "")
}

// Admit reports why j and what follows it cannot run where their queues are worked
// off. A job without a queue goes to that of the job before, which before names.
func (q *Jobs) Admit(j *job.Job, before string) error {
	name := j.Queue
	if name == "" {
		name = before
	}
	if name == "" {
		name = "default"
	}
	t := bullpen.Task{Name: j.Name, Payload: j.Payload, Meta: j.Meta, Limits: j.Limits}
	if err := q.refusal(name, t); err != nil {
		return fmt.Errorf("job %q cannot run in the queue %q: %w", j.Name, name, err)
	}
	for i := range j.Then {
		l := &j.Then[i]
		if err := q.Admit(l, name); err != nil {
			return fmt.Errorf("Then[%d]: %w", i, err)
		}
		if l.Queue != "" {
			name = l.Queue
		}
	}
	return nil
}

// refusal reports why all executors that work on a queue here refuse t. It is nil
// where there is none, or one that does not say.
func (q *Jobs) refusal(name string, t bullpen.Task) error {
	if q.Config.Refuse != nil {
		if err := q.Config.Refuse(name, t); err != nil {
			return err
		}
	}
	var refused error
	for _, e := range q.Above.Executors(name) {
		c, says := e.(bullpen.Checker)
		if !says {
			return nil
		}
		if refused = c.Check(t); refused == nil {
			return nil
		}
	}
	return refused
}
