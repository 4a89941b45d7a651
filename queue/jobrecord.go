package queue

import (
	"fmt"
	"math"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// stored is a job as it lies in the store.
type stored struct {
	id       string
	job      Job
	enqueued time.Time
	// again says that this copy was put back for another attempt, so that its
	// attempts are to be looked up although it is delivered for the first time.
	again bool
	// parent is the id of the dead job that this one is another try of, or of the
	// job that it compensates.
	parent string
	// undoes is the outcome of parent, if this job compensates it.
	undoes string
	// schedule is the name of the schedule that this job is of, and tick the moment
	// it is for; empty for others.
	schedule string
	tick     time.Time
	// derived says that the id follows from what the job is for (see derivedID), so
	// that it may have been enqueued and have ended before: its outcome is looked up
	// before it runs.
	derived bool
	// chain is its place among jobs one after the other; what follows is in job.Then.
	chain place
	// batch is the id of the batch whose member index it is or belongs to.
	batch string
	index int
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

// encode returns the record of s.
func (s *stored) encode() []byte {
	w := newRecord(len(s.job.Payload) + len(s.job.Name) + 64 + 64*len(s.job.Meta))
	w.flag(tagAgain, s.again)
	w.flag(tagDerived, s.derived)
	w.text(tagParent, s.parent)
	w.tick(tagSchedule, s.schedule, s.tick)
	w.text(tagUndoes, s.undoes)
	w.moment(tagEnqueued, s.enqueued)
	w.bytes(tagChain, chainFields(s.chain, s.job.Then))
	w.text(tagBatch, s.batch)
	w.number(tagIndex, uint64(s.index))
	s.job.write(&w)
	return w.seal(s.id)
}

// write adds what a record says of the job itself. What its subject says (queue
// and priority) and what follows it (Then) is not among that.
func (j *Job) write(w *recordWriter) {
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
	if !j.Retry.isZero() {
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

// decodeJob reads the record of the job id; its payload is a part of b.
func decodeJob(id string, b []byte) (*stored, error) {
	s := &stored{id: id}
	if err := readRecord(id, b, s.read); err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	return s, nil
}

func (s *stored) read(f field) error {
	j := &s.job
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
		s.parent = string(f.v)
	case tagUndoes:
		s.undoes = string(f.v)
	case tagSchedule:
		return f.tick(&s.schedule, &s.tick)
	case tagBatch:
		s.batch = string(f.v)
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
			return fmt.Errorf("%w: its CPU limit is %v", errCorrupt, j.Limits.CPU)
		}
		return err
	default:
		if to := s.numberAt(f.tag); to != nil {
			return f.into(to)
		}
	}
	return nil
}

// numberAt returns where the number with a tag belongs, nil when it is unknown.
func (s *stored) numberAt(tag uint64) any {
	j := &s.job
	switch tag {
	case tagEnqueued:
		return &s.enqueued
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
		return &s.again
	case tagDerived:
		return &s.derived
	case tagIndex:
		return &s.index
	default:
		return nil
	}
}

func (s *stored) readMeta(f field) error {
	k, v, err := f.pair()
	if err != nil {
		return err
	}
	if s.job.Meta == nil {
		s.job.Meta = make(map[string]string)
	}
	if len(s.job.Meta) >= mostPairs {
		return fmt.Errorf("%w: it has too many keys", errCorrupt)
	}
	s.job.Meta[k] = v
	return nil
}

func (s *stored) readOn(f field) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	if f.tag == tagOnNothing {
		s.job.Retry.On = []bullpen.Outcome{}
		return nil
	}
	o, err := outcomeOf(v - 1)
	if err == nil && len(s.job.Retry.On) <= math.MaxUint8 {
		s.job.Retry.On = append(s.job.Retry.On, o)
	}
	return err
}
