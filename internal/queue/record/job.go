package record

import (
	"fmt"
	"math"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// Job is the stored form of a job.
type Job struct {
	ID       string
	Job      job.Job
	Enqueued time.Time
	// Again means that this copy was put back for another attempt: its attempts are
	// looked up although it is delivered for the first time.
	Again bool
	// Parent is the id of the dead job that this one tries again, or of the job that it
	// compensates.
	Parent string
	// Undoes is the outcome of Parent, if this job compensates it.
	Undoes string
	// Schedule is the name of the schedule that enqueued the job, and Tick the moment it
	// is for; both are empty for others.
	Schedule string
	Tick     time.Time
	// Derived means that the id follows from what the job is for (see DerivedID). The job
	// may have been enqueued and have ended before, so its outcome is looked up before it
	// runs.
	Derived bool
	// Chain is the job's position in its chain; the jobs that follow are in Job.Then.
	Chain Position
	// Batch is the id of the batch, and Index the member that the job is or belongs to.
	Batch string
	Index int
}

// The tags of a job's record.
const (
	tagName = iota + 1
	tagPayload
	tagMeta
	tagKey
	tagEnqueued
	tagAt
	tagDeadline
	tagTimeout
	tagMemory
	tagCPU
	tagOutput
	tagAttempts
	tagBackoff
	tagMaxBackoff
	tagCrashes
	tagNodes
	tagOn
	tagIdempotent
	tagCompensate
	tagAgain
	tagParent
	tagUndoes
	tagOnNothing
	tagDerived
	tagGroup
	tagBatch
	tagIndex
	tagChain
	tagSchedule
	tagBury
)

// Encode returns the record of s.
func (s *Job) Encode() []byte {
	w := newRecord(len(s.Job.Payload) + len(s.Job.Name) + 64 + 64*len(s.Job.Meta))
	w.flag(tagAgain, s.Again)
	w.flag(tagDerived, s.Derived)
	w.text(tagParent, s.Parent)
	w.tick(tagSchedule, s.Schedule, s.Tick)
	w.text(tagUndoes, s.Undoes)
	w.moment(tagEnqueued, s.Enqueued)
	w.bytes(tagChain, chainFields(s.Chain, s.Job.Then))
	w.text(tagBatch, s.Batch)
	w.number(tagIndex, uint64(s.Index))
	writeJob(&w, &s.Job)
	return w.seal(s.ID)
}

// writeJob adds the job itself to a record, without what the subject says (queue and
// priority) and without the jobs that follow (Then).
func writeJob(w *recordWriter, j *job.Job) {
	w.text(tagName, j.Name)
	for k, v := range j.Meta {
		w.pair(tagMeta, k, v)
	}
	w.text(tagKey, j.Key)
	w.text(tagGroup, j.Group)
	w.moment(tagAt, j.At)
	w.moment(tagDeadline, j.Deadline)
	w.span(tagTimeout, j.Limits.Timeout)
	w.number(tagMemory, uint64(j.Limits.Memory))
	if j.Limits.CPU > 0 {
		w.number(tagCPU, math.Float64bits(j.Limits.CPU))
	}
	w.number(tagOutput, uint64(j.Limits.Output))
	if !j.Retry.IsZero() {
		w.number(tagAttempts, uint64(j.Retry.Attempts))
		w.span(tagBackoff, j.Retry.Backoff)
		w.span(tagMaxBackoff, j.Retry.MaxBackoff)
		w.number(tagCrashes, uint64(j.Retry.Crashes))
		w.number(tagNodes, uint64(j.Retry.Nodes))
		for _, o := range j.Retry.On {
			w.number(tagOn, uint64(o)+1)
		}
		w.flag(tagOnNothing, j.Retry.On != nil && len(j.Retry.On) == 0)
	}
	w.flag(tagIdempotent, j.Idempotent)
	w.text(tagCompensate, j.Compensate)
	w.text(tagBury, j.Bury)
	w.bytes(tagPayload, j.Payload)
}

// DecodeJob reads the record of the job id; its payload shares the memory of b.
func DecodeJob(id string, b []byte) (*Job, error) {
	s := &Job{ID: id}
	if err := readRecord(id, b, s.read); err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	return s, nil
}

func (s *Job) read(f field) error {
	j := &s.Job
	switch f.tag {
	case tagName:
		j.Name = string(f.v)
	case tagPayload:
		j.Payload = f.v
	case tagKey:
		j.Key = string(f.v)
	case tagGroup:
		j.Group = string(f.v)
	case tagCompensate:
		j.Compensate = string(f.v)
	case tagBury:
		j.Bury = string(f.v)
	case tagParent:
		s.Parent = string(f.v)
	case tagUndoes:
		s.Undoes = string(f.v)
	case tagSchedule:
		return f.tick(&s.Schedule, &s.Tick)
	case tagBatch:
		s.Batch = string(f.v)
	case tagChain:
		return s.readChain(f)
	case tagMeta:
		return s.readMeta(f)
	case tagOn, tagOnNothing:
		return s.readOn(f)
	case tagCPU:
		v, err := f.number()
		j.Limits.CPU = math.Float64frombits(v)
		if err == nil && !(j.Limits.CPU > 0 && j.Limits.CPU <= math.MaxFloat64) {
			return fmt.Errorf("%w: its CPU limit is %v", job.ErrDamaged, j.Limits.CPU)
		}
		return err
	default:
		if to := s.numberAt(f.tag); to != nil {
			return f.into(to)
		}
	}
	return nil
}

// numberAt returns where the number with a tag belongs, nil if the tag is unknown.
func (s *Job) numberAt(tag uint64) any {
	j := &s.Job
	switch tag {
	case tagEnqueued:
		return &s.Enqueued
	case tagAt:
		return &j.At
	case tagDeadline:
		return &j.Deadline
	case tagTimeout:
		return &j.Limits.Timeout
	case tagMemory:
		return &j.Limits.Memory
	case tagOutput:
		return &j.Limits.Output
	case tagAttempts:
		return &j.Retry.Attempts
	case tagBackoff:
		return &j.Retry.Backoff
	case tagMaxBackoff:
		return &j.Retry.MaxBackoff
	case tagCrashes:
		return &j.Retry.Crashes
	case tagNodes:
		return &j.Retry.Nodes
	case tagIdempotent:
		return &j.Idempotent
	case tagAgain:
		return &s.Again
	case tagDerived:
		return &s.Derived
	case tagIndex:
		return &s.Index
	default:
		return nil
	}
}

func (s *Job) readMeta(f field) error {
	k, v, err := f.pair()
	if err != nil {
		return err
	}
	if s.Job.Meta == nil {
		s.Job.Meta = make(map[string]string)
	}
	if len(s.Job.Meta) >= MostPairs {
		return fmt.Errorf("%w: it has too many keys", job.ErrDamaged)
	}
	s.Job.Meta[k] = v
	return nil
}

func (s *Job) readOn(f field) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	if f.tag == tagOnNothing {
		s.Job.Retry.On = []bullpen.Outcome{}
		return nil
	}
	o, err := outcomeOf(v - 1)
	if err == nil && len(s.Job.Retry.On) <= math.MaxUint8 {
		s.Job.Retry.On = append(s.Job.Retry.On, o)
	}
	return err
}

// Consumer returns the consumer that hands the job out.
func (s *Job) Consumer() engine.Consumer {
	return engine.Consumer{Queue: s.Job.Queue, Priority: s.Job.Priority.String(), Grouped: s.Job.Group != ""}
}

// Message returns the Put that stores s in the stream Jobs.
func (s *Job) Message() engine.Put {
	return engine.Put{
		Stream: engine.Jobs, Subject: engine.JobSubject(s.Consumer(), s.ID), Data: s.Encode(), Durable: true, At: s.Job.At,
	}
}

// State returns the state of a job that was just enqueued.
func (s *Job) State() job.State {
	if s.Job.At.IsZero() {
		return job.Queued
	}
	return job.Scheduled
}

// Next returns the id of the job that follows s once s has ended well, empty for the
// last. The id follows from what is recorded, so every reader of the outcome finds the
// same one.
func (s *Job) Next(ended time.Time) string {
	if len(s.Job.Then) == 0 {
		return ""
	}
	return DerivedID(ended, "chain", s.ID)
}
