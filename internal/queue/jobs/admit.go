package jobs

import (
	"fmt"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Check implements queue.Queue.Check.
func (q *Jobs) Check(j job.Job) error {
	if err := q.Config.checkJob(&j); err != nil {
		return err
	}
	return q.Admit(&j, "")
}

// Admit reports why j and the jobs that follow it cannot run on this program's executors
// of their queues. A job without a queue goes to that of the job before it, which is
// before.
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

// refusal reports why all executors that work on a queue here refuse t. It returns nil if
// no executor works on it, or if one of them does not say in advance.
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
