package queue

import (
	"fmt"

	bullpen "github.com/bullpen-run/bullpen"
)

// Check reports why Enqueue would not take j: all its faults, or that the executors
// of its queue cannot run it, or one of those that follow it.
func (q *Queue) Check(j Job) error {
	if err := j.check(&q.config); err != nil {
		return err
	}
	return q.admit(&j, "")
}

// admit reports why j and what follows it cannot run where their queues are worked
// off. A job without a queue goes to that of the job before, which before names.
func (q *Queue) admit(j *Job, before string) error {
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
		if err := q.admit(l, name); err != nil {
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
func (q *Queue) refusal(name string, t bullpen.Task) error {
	if q.config.Refuse != nil {
		if err := q.config.Refuse(name, t); err != nil {
			return err
		}
	}
	var refused error
	for _, e := range q.executors(name) {
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

// executors are those that work on a queue in this program.
func (q *Queue) executors(name string) []bullpen.Executor {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []bullpen.Executor
	for r := range q.runners {
		if r.config.Queue == name {
			all = append(all, r.executor)
		}
	}
	return all
}
