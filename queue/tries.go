package queue

import (
	"fmt"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Attempt is one handing of a job to an executor.
type Attempt struct {
	// Number counts the attempts of the job that started, from 1.
	Number int
	// Outcome is how it ended; Lost where a node died with it.
	Outcome bullpen.Outcome
	// Ended is when.
	Ended time.Time
	// Ran is how long the handler ran, where that is known.
	Ran time.Duration
	// Node and Worker say who had it.
	Node, Worker string
	// Error says why it failed, in one line; empty for OK.
	Error string
	// Signal and ExitCode are of a worker that died; ExitCode is -1 otherwise.
	Signal   string
	ExitCode int
	// PeakMemory is the worker's, in bytes, where it is known.
	PeakMemory int64
}

// mostHistory is how many attempts are kept of a job, the last ones.
const mostHistory = 16

// tries is what is known of the attempts of a job. It is stored after an attempt
// that did not end the job, so a job that ends well at once never stores it.
type tries struct {
	started  int  // attempts that started, whatever came of them
	failures int  // of these, by the handler's doing: against Retry.Attempts
	crashes  int  // workers that died with the job in hand: against Retry.Crashes
	lost     int  // of these, whose node died: against Retry.Nodes
	open     bool // an attempt has begun, and its end is not stored: it was cut off if another comes
	refused  int  // times that an executor refused it, none of them started
	retryAt  time.Time
	history  []Attempt
}

const (
	tryStarted = iota + 1
	tryFailures
	tryCrashes
	tryLost
	tryOpen
	tryRefused
	tryRetryAt
	tryAttempt
)

func (t *tries) fields() []byte {
	w := recordWriter{make([]byte, 0, 64*(1+len(t.history)))}
	t.write(&w)
	return w.b
}

func (t *tries) write(w *recordWriter) {
	w.number(tryStarted, uint64(t.started))
	w.number(tryFailures, uint64(t.failures))
	w.number(tryCrashes, uint64(t.crashes))
	w.number(tryLost, uint64(t.lost))
	w.flag(tryOpen, t.open)
	w.number(tryRefused, uint64(t.refused))
	w.moment(tryRetryAt, t.retryAt)
	for i := range t.history {
		w.bytes(tryAttempt, t.history[i].fields())
	}
}

// encode returns the record of t for the job id.
func (t *tries) encode(id string) []byte {
	w := newRecord(64 * (1 + len(t.history)))
	t.write(&w)
	return w.seal(id)
}

func decodeTries(id string, b []byte) (tries, error) {
	var t tries
	if err := readRecord(id, b, t.read); err != nil {
		return tries{}, fmt.Errorf("attempts of job %s: %w", id, err)
	}
	return t, nil
}

func (t *tries) readFields(b []byte) error { return readFields(b, t.read) }

func (t *tries) read(f field) error {
	numbers := map[uint64]*int{
		tryStarted: &t.started, tryFailures: &t.failures, tryCrashes: &t.crashes, tryLost: &t.lost,
		tryRefused: &t.refused,
	}
	if to := numbers[f.tag]; to != nil {
		return f.into(to)
	}
	switch f.tag {
	case tryOpen:
		return f.into(&t.open)
	case tryRetryAt:
		return f.into(&t.retryAt)
	case tryAttempt:
		if len(t.history) >= mostPairs {
			return fmt.Errorf("%w: it has too many attempts", errCorrupt)
		}
		a := Attempt{ExitCode: -1}
		err := a.readFields(f.v)
		t.history = append(t.history, a)
		return err
	}
	return nil
}

const (
	attemptNumber = iota + 1
	attemptOutcome
	attemptEnded
	attemptRan
	attemptNode
	attemptWorker
	attemptError
	attemptSignal
	attemptExit
	attemptPeak
)

func (a *Attempt) fields() []byte {
	w := recordWriter{make([]byte, 0, 64+len(a.Error))}
	w.number(attemptNumber, uint64(a.Number))
	w.number(attemptOutcome, uint64(a.Outcome))
	w.moment(attemptEnded, a.Ended)
	w.span(attemptRan, a.Ran)
	w.text(attemptNode, a.Node)
	w.text(attemptWorker, a.Worker)
	w.text(attemptError, a.Error)
	w.text(attemptSignal, a.Signal)
	w.code(attemptExit, a.ExitCode)
	w.number(attemptPeak, uint64(max(a.PeakMemory, 0)))
	return w.b
}

func (a *Attempt) readFields(b []byte) error {
	return readFields(b, func(f field) error {
		switch f.tag {
		case attemptNumber:
			return f.into(&a.Number)
		case attemptOutcome:
			return f.into(&a.Outcome)
		case attemptEnded:
			return f.into(&a.Ended)
		case attemptRan:
			return f.into(&a.Ran)
		case attemptNode:
			a.Node = string(f.v)
		case attemptWorker:
			a.Worker = string(f.v)
		case attemptError:
			a.Error = string(f.v)
		case attemptSignal:
			a.Signal = string(f.v)
		case attemptExit:
			err := f.into(&a.ExitCode)
			a.ExitCode--
			return err
		case attemptPeak:
			return f.into(&a.PeakMemory)
		}
		return nil
	})
}

// add notes an attempt that has ended, and keeps the last ones only.
func (t *tries) add(a Attempt) {
	t.started++
	a.Number = t.started
	if len(t.history) >= mostHistory {
		t.history = append(t.history[:0], t.history[1:]...)
	}
	t.history = append(t.history, a)
}

// cutOff tells whether an attempt ended without its handler: it may have got to
// any point.
func (t *tries) cutOff() bool {
	return t.crashes > 0 || t.lost > 0 || slices.ContainsFunc(t.history, func(a Attempt) bool {
		return a.Outcome == bullpen.Lost || a.Outcome == bullpen.Canceled
	})
}

// cut counts an attempt whose node died with it.
func (t *tries) cut(now time.Time) {
	t.lost++
	t.open = false
	t.add(Attempt{Outcome: bullpen.Lost, Ended: now, Error: "the node that had it died", ExitCode: -1})
}
