package record

import (
	"fmt"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// ParseSubject returns what the subject of a job says about it. For a scheduled job that
// is the subject on which it will appear.
func ParseSubject(m engine.Message) (c engine.Consumer, id string, ok bool) {
	subject := m.Subject
	if m.Target != "" {
		subject = m.Target
	}
	return engine.ParseJob(subject)
}

// Queued returns what the stored job itself says.
func Queued(m engine.Message) (*job.Info, error) {
	c, id, ok := ParseSubject(m)
	if !ok {
		return nil, fmt.Errorf("%w: subject %q is not of a job", job.ErrDamaged, m.Subject)
	}
	s, err := DecodeJob(id, m.Data)
	if err != nil {
		return nil, err
	}
	p, err := job.ParsePriority(c.Priority)
	if err != nil {
		return nil, err
	}
	j := &s.Job
	return &job.Info{
		ID: id, Queue: c.Queue, Name: j.Name, Key: j.Key, Priority: p, State: job.Queued,
		Enqueued: s.Enqueued, Deadline: j.Deadline, Payload: j.Payload, PayloadSize: len(j.Payload), Meta: j.Meta, Parent: s.Parent,
		Schedule: s.Schedule, Tick: s.Tick, Batch: s.Batch, Index: s.Index,
		Chain: s.Chain.First, Link: s.Chain.Number, Links: s.Chain.Of,
		Compensate: j.Compensate, Bury: j.Bury, Group: j.Group,
	}, nil
}
