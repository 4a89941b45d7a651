package record

import (
	"fmt"
	"math"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// End is how a job ended, as stored in the stream Outcomes and, together with the job, in
// the stream Dead.
type End struct {
	ID         string
	Queue      string
	Name, Key  string
	Priority   job.Priority
	Outcome    bullpen.Outcome
	Reason     job.Reason
	Enqueued   time.Time
	Ended      time.Time
	Failure    *bullpen.TaskError // nil if no attempt of it started
	Message    string             // the reason, where Failure does not have it
	Result     []byte
	Stats      bullpen.Stats
	Node       string
	Tries      Tries
	Progress   float64
	Note       string
	Lines      []bullpen.LogLine
	Parent     string
	Compensate string
	Bury       string
	Schedule   string // the schedule of whose tick this was the job
	Tick       time.Time
	Group      string
	Job        []byte // the record of the job: for a dead job, and where Config keeps it
	Chain      Position
	Next       string // the id of the next job of the chain, if this one ended well and is not the last
	Batch      string
	Index      int
	Size       int // of the payload, in bytes
}

// The tags of the record of an end.
const (
	endQueue = iota + 1
	endName
	endKey
	endPriority
	endOutcome
	endReason
	endEnqueued
	endEnded
	endMessage
	endResult
	endWaited
	endRan
	endWorker
	endPeak
	endNode
	endTries
	endProgress
	endNote
	endLine
	endFailure
	endParent
	endCompensate
	endJob
	endGroup
	endBatch
	endIndex
	endNext
	endSchedule
	endBury
	endDeaths
	endSize
)

// Encode returns the record of e.
func (e *End) Encode() []byte {
	w := newRecord(len(e.Result) + len(e.Job) + 160)
	w.text(endQueue, e.Queue)
	w.text(endName, e.Name)
	w.text(endKey, e.Key)
	w.number(endPriority, uint64(e.Priority))
	w.number(endOutcome, uint64(e.Outcome))
	w.text(endReason, string(e.Reason))
	w.moment(endEnqueued, e.Enqueued)
	w.moment(endEnded, e.Ended)
	w.text(endMessage, Cut(e.Message, longestEvidence))
	w.span(endWaited, e.Stats.Waited)
	w.span(endRan, e.Stats.Ran)
	w.text(endWorker, e.Stats.Worker)
	w.number(endPeak, uint64(max(e.Stats.PeakMemory, 0)))
	w.number(endDeaths, uint64(e.Stats.Deaths))
	w.text(endNode, e.Node)
	if e.Tries.Started > 0 || len(e.Tries.History) > 0 || e.Tries.Lost > 0 {
		w.bytes(endTries, e.Tries.fields())
	}
	w.number(endProgress, math.Float64bits(max(e.Progress, 0)))
	w.text(endNote, e.Note)
	for i := range e.Lines {
		w.bytes(endLine, lineFields(&e.Lines[i]))
	}
	if e.Failure != nil {
		w.bytes(endFailure, failureFields(e.Failure))
	}
	w.text(endParent, e.Parent)
	w.text(endCompensate, e.Compensate)
	w.text(endBury, e.Bury)
	w.tick(endSchedule, e.Schedule, e.Tick)
	w.bytes(endNext, nextFields(e.Chain, e.Next))
	w.text(endBatch, e.Batch)
	w.number(endIndex, uint64(e.Index))
	w.text(endGroup, e.Group)
	w.number(endSize, uint64(e.Size))
	w.bytes(endJob, e.Job)
	w.bytes(endResult, e.Result)
	return w.seal(e.ID)
}

// DecodeEnd reads the record of the end of the job id; its result is a part of b.
func DecodeEnd(id string, b []byte) (*End, error) {
	e := &End{ID: id}
	if err := readRecord(id, b, e.read); err != nil {
		return nil, fmt.Errorf("outcome of job %s: %w", id, err)
	}
	return e, nil
}

func (e *End) read(f field) error {
	if to := e.textAt(f.tag); to != nil {
		*to = string(f.v)
		return nil
	}
	switch f.tag {
	case endResult:
		e.Result = f.v
	case endJob:
		e.Job = f.v
	case endReason:
		e.Reason = job.Reason(f.v)
	case endNext:
		return e.readNext(f)
	case endTries:
		return e.Tries.readFields(f.v)
	case endFailure:
		e.Failure = &bullpen.TaskError{ExitCode: -1}
		return readFailure(f.v, e.Failure)
	case endLine:
		return e.readLine(f.v)
	case endOutcome:
		return f.into(&e.Outcome)
	case endPriority, endProgress:
		return e.readSmall(f)
	case endSchedule:
		return f.tick(&e.Schedule, &e.Tick)
	case endEnqueued:
		return f.into(&e.Enqueued)
	case endEnded:
		return f.into(&e.Ended)
	case endWaited:
		return f.into(&e.Stats.Waited)
	case endRan:
		return f.into(&e.Stats.Ran)
	case endPeak:
		return f.into(&e.Stats.PeakMemory)
	case endIndex:
		return f.into(&e.Index)
	case endDeaths:
		return f.into(&e.Stats.Deaths)
	case endSize:
		return f.into(&e.Size)
	}
	return nil
}

func (e *End) textAt(tag uint64) *string {
	switch tag {
	case endQueue:
		return &e.Queue
	case endName:
		return &e.Name
	case endKey:
		return &e.Key
	case endMessage:
		return &e.Message
	case endWorker:
		return &e.Stats.Worker
	case endNode:
		return &e.Node
	case endNote:
		return &e.Note
	case endParent:
		return &e.Parent
	case endGroup:
		return &e.Group
	case endCompensate:
		return &e.Compensate
	case endBury:
		return &e.Bury
	case endBatch:
		return &e.Batch
	default:
		return nil
	}
}

func (e *End) readSmall(f field) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	switch f.tag {
	case endPriority:
		if v >= job.Priorities {
			return fmt.Errorf("%w: it names a priority %d", job.ErrDamaged, v)
		}
		e.Priority = job.Priority(v)
	case endProgress:
		if e.Progress = math.Float64frombits(v); !(e.Progress >= 0 && e.Progress <= 1) {
			return fmt.Errorf("%w: its progress is %v", job.ErrDamaged, e.Progress)
		}
	}
	return nil
}

// The tags of a line, and of a failure.
const (
	lineTime = iota + 1
	lineLevel
	lineStream
	lineText

	// levelZero is added to each level, so that no negative number is stored.
	levelZero = 1 << 8
)

func lineFields(l *bullpen.LogLine) []byte {
	w := recordWriter{make([]byte, 0, len(l.Text)+32)}
	w.moment(lineTime, l.Time)
	w.number(lineLevel, uint64(max(min(l.Level, levelZero), 1-levelZero)+levelZero))
	w.text(lineStream, l.Stream)
	w.text(lineText, l.Text)
	return w.b
}

func (e *End) readLine(b []byte) error {
	if len(e.Lines) >= MostPairs {
		return fmt.Errorf("%w: it has too many lines", job.ErrDamaged)
	}
	var l bullpen.LogLine
	err := readFields(b, func(f field) error {
		switch f.tag {
		case lineTime:
			return f.into(&l.Time)
		case lineLevel:
			err := f.into(&l.Level)
			l.Level -= levelZero
			return err
		case lineStream:
			l.Stream = string(f.v)
		case lineText:
			l.Text = string(f.v)
		}
		return nil
	})
	e.Lines = append(e.Lines, l)
	return err
}

const (
	failOutcome = iota + 1
	failType
	failMessage
	failStack
	failRetryable
	failWorker
	failExit
	failSignal
	failDetail
	failTask
	failCause
)

// longestEvidence bounds each text of a failure, so that a record with the largest
// payload fits into a message.
const longestEvidence = 16 << 10

// failureFields returns a task's error without the task's id, which the record has.
func failureFields(t *bullpen.TaskError) []byte {
	w := recordWriter{make([]byte, 0, len(t.Message)+len(t.Detail)+len(t.Stack)+64)}
	w.number(failOutcome, uint64(t.Outcome))
	w.text(failTask, t.Task)
	w.text(failType, Cut(t.Type, LongestError))
	w.text(failMessage, Cut(t.Message, longestEvidence))
	w.text(failStack, Cut(t.Stack, longestEvidence))
	w.flag(failRetryable, t.Retryable)
	w.text(failWorker, t.Worker)
	w.code(failExit, t.ExitCode)
	w.text(failSignal, t.Signal)
	w.text(failDetail, Cut(t.Detail, longestEvidence))
	if t.Err != nil && t.Message == "" {
		w.text(failCause, Cut(t.Err.Error(), longestEvidence))
	}
	return w.b
}

func readFailure(b []byte, t *bullpen.TaskError) error {
	texts := map[uint64]*string{
		failTask: &t.Task, failType: &t.Type, failMessage: &t.Message, failStack: &t.Stack,
		failWorker: &t.Worker, failSignal: &t.Signal, failDetail: &t.Detail, failCause: &t.Message,
	}
	return readFields(b, func(f field) error {
		if to := texts[f.tag]; to != nil {
			*to = string(f.v)
			return nil
		}
		switch f.tag {
		case failRetryable:
			return f.into(&t.Retryable)
		case failExit:
			err := f.into(&t.ExitCode)
			t.ExitCode--
			return err
		case failOutcome:
			return f.into(&t.Outcome)
		}
		return nil
	})
}
