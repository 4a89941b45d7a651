package queue

import (
	"fmt"
	"math"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// ending is how a job ended, as it lies in the stream of outcomes and, with the
// job, among the dead.
type ending struct {
	id         string
	queue      string
	name, key  string
	priority   Priority
	outcome    bullpen.Outcome
	reason     Reason
	enqueued   time.Time
	ended      time.Time
	failure    *bullpen.TaskError // nil where no attempt of it started
	message    string             // why, where failure does not say
	result     []byte
	stats      bullpen.Stats
	node       string
	tries      tries
	progress   float64
	note       string
	lines      []bullpen.LogLine
	parent     string
	compensate string
	bury       string
	schedule   string // whose tick the job was for
	tick       time.Time
	group      string
	job        []byte // the record of the job, of a dead one and where it is kept
	chain      place
	next       string // the id of the next job of the chain, of one that ended well and is not the last
	batch      string
	index      int
	size       int // of the payload
}

// The tags of an ending's record.
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

// encode returns the record of e.
func (e *ending) encode() []byte {
	w := newRecord(len(e.result) + len(e.job) + 160)
	w.text(endQueue, e.queue)
	w.text(endName, e.name)
	w.text(endKey, e.key)
	w.number(endPriority, uint64(e.priority))
	w.number(endOutcome, uint64(e.outcome))
	w.text(endReason, string(e.reason))
	w.moment(endEnqueued, e.enqueued)
	w.moment(endEnded, e.ended)
	w.text(endMessage, cut(e.message, longestEvidence))
	w.span(endWaited, e.stats.Waited)
	w.span(endRan, e.stats.Ran)
	w.text(endWorker, e.stats.Worker)
	w.number(endPeak, uint64(max(e.stats.PeakMemory, 0)))
	w.number(endDeaths, uint64(e.stats.Deaths))
	w.text(endNode, e.node)
	if e.tries.started > 0 || len(e.tries.history) > 0 || e.tries.lost > 0 {
		w.bytes(endTries, e.tries.fields())
	}
	w.number(endProgress, math.Float64bits(max(e.progress, 0)))
	w.text(endNote, e.note)
	for i := range e.lines {
		w.bytes(endLine, lineFields(&e.lines[i]))
	}
	if e.failure != nil {
		w.bytes(endFailure, failureFields(e.failure))
	}
	w.text(endParent, e.parent)
	w.text(endCompensate, e.compensate)
	w.text(endBury, e.bury)
	w.tick(endSchedule, e.schedule, e.tick)
	w.bytes(endNext, nextFields(e.chain, e.next))
	w.text(endBatch, e.batch)
	w.number(endIndex, uint64(e.index))
	w.text(endGroup, e.group)
	w.number(endSize, uint64(e.size))
	w.bytes(endJob, e.job)
	w.bytes(endResult, e.result)
	return w.seal(e.id)
}

// decodeEnding reads the record of the end of the job id; its result is a part of b.
func decodeEnding(id string, b []byte) (*ending, error) {
	e := &ending{id: id}
	if err := readRecord(id, b, e.read); err != nil {
		return nil, fmt.Errorf("outcome of job %s: %w", id, err)
	}
	return e, nil
}

func (e *ending) read(f field) error {
	if to := e.textAt(f.tag); to != nil {
		*to = string(f.v)
		return nil
	}
	switch f.tag {
	case endResult:
		e.result = f.v
	case endJob:
		e.job = f.v
	case endReason:
		e.reason = Reason(f.v)
	case endNext:
		return e.readNext(f)
	case endTries:
		return e.tries.readFields(f.v)
	case endFailure:
		e.failure = &bullpen.TaskError{ExitCode: -1}
		return readFailure(f.v, e.failure)
	case endLine:
		return e.readLine(f.v)
	case endOutcome:
		return f.into(&e.outcome)
	case endPriority, endProgress:
		return e.readSmall(f)
	case endSchedule:
		return f.tick(&e.schedule, &e.tick)
	case endEnqueued:
		return f.into(&e.enqueued)
	case endEnded:
		return f.into(&e.ended)
	case endWaited:
		return f.into(&e.stats.Waited)
	case endRan:
		return f.into(&e.stats.Ran)
	case endPeak:
		return f.into(&e.stats.PeakMemory)
	case endIndex:
		return f.into(&e.index)
	case endDeaths:
		return f.into(&e.stats.Deaths)
	case endSize:
		return f.into(&e.size)
	}
	return nil
}

func (e *ending) textAt(tag uint64) *string {
	switch tag {
	case endQueue:
		return &e.queue
	case endName:
		return &e.name
	case endKey:
		return &e.key
	case endMessage:
		return &e.message
	case endWorker:
		return &e.stats.Worker
	case endNode:
		return &e.node
	case endNote:
		return &e.note
	case endParent:
		return &e.parent
	case endGroup:
		return &e.group
	case endCompensate:
		return &e.compensate
	case endBury:
		return &e.bury
	case endBatch:
		return &e.batch
	default:
		return nil
	}
}

func (e *ending) readSmall(f field) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	switch f.tag {
	case endPriority:
		if v >= priorities {
			return fmt.Errorf("%w: it names a priority %d", errCorrupt, v)
		}
		e.priority = Priority(v)
	case endProgress:
		if e.progress = math.Float64frombits(v); !(e.progress >= 0 && e.progress <= 1) {
			return fmt.Errorf("%w: its progress is %v", errCorrupt, e.progress)
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

	// levelZero is what is added to a level, so that it is no negative number.
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

func (e *ending) readLine(b []byte) error {
	if len(e.lines) >= mostPairs {
		return fmt.Errorf("%w: it has too many lines", errCorrupt)
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
	e.lines = append(e.lines, l)
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

// failureFields gives a task's error without its id, which the record has.
func failureFields(t *bullpen.TaskError) []byte {
	w := recordWriter{make([]byte, 0, len(t.Message)+len(t.Detail)+len(t.Stack)+64)}
	w.number(failOutcome, uint64(t.Outcome))
	w.text(failTask, t.Task)
	w.text(failType, cut(t.Type, longestError))
	w.text(failMessage, cut(t.Message, longestEvidence))
	w.text(failStack, cut(t.Stack, longestEvidence))
	w.flag(failRetryable, t.Retryable)
	w.text(failWorker, t.Worker)
	w.code(failExit, t.ExitCode)
	w.text(failSignal, t.Signal)
	w.text(failDetail, cut(t.Detail, longestEvidence))
	if t.Err != nil && t.Message == "" {
		w.text(failCause, cut(t.Err.Error(), longestEvidence))
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
