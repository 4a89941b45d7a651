package record

import (
	"fmt"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// mostHistory is how many attempts of a job are kept: the last ones.
const mostHistory = 16

// Tries records the attempts of a job. It is stored after an attempt that did not end the
// job, so a job that ends well at once never stores it.
type Tries struct {
	Started  int  // attempts that started, whatever their outcome
	Failures int  // those that the handler failed; counted against Retry.Attempts
	Crashes  int  // workers that died with the job; counted against Retry.Crashes
	Lost     int  // those whose node died; counted against Retry.Nodes
	Open     bool // an attempt began, and its end is not stored; a further attempt means that it was cut off
	Refused  int  // how often an executor refused the job without starting it
	RetryAt  time.Time
	History  []job.Attempt
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

func (t *Tries) fields() []byte {
	w := recordWriter{make([]byte, 0, 64*(1+len(t.History)))}
	t.write(&w)
	return w.b
}

func (t *Tries) write(w *recordWriter) {
	w.number(tryStarted, uint64(t.Started))
	w.number(tryFailures, uint64(t.Failures))
	w.number(tryCrashes, uint64(t.Crashes))
	w.number(tryLost, uint64(t.Lost))
	w.flag(tryOpen, t.Open)
	w.number(tryRefused, uint64(t.Refused))
	w.moment(tryRetryAt, t.RetryAt)
	for i := range t.History {
		w.bytes(tryAttempt, attemptFields(&t.History[i]))
	}
}

// Encode returns the record of t for the job id.
func (t *Tries) Encode(id string) []byte {
	w := newRecord(64 * (1 + len(t.History)))
	t.write(&w)
	return w.seal(id)
}

// DecodeTries reads the record of the attempts of the job id.
func DecodeTries(id string, b []byte) (Tries, error) {
	var t Tries
	if err := readRecord(id, b, t.read); err != nil {
		return Tries{}, fmt.Errorf("attempts of job %s: %w", id, err)
	}
	return t, nil
}

func (t *Tries) readFields(b []byte) error { return readFields(b, t.read) }

func (t *Tries) read(f field) error {
	numbers := map[uint64]*int{
		tryStarted: &t.Started, tryFailures: &t.Failures, tryCrashes: &t.Crashes, tryLost: &t.Lost,
		tryRefused: &t.Refused,
	}
	if to := numbers[f.tag]; to != nil {
		return f.into(to)
	}
	switch f.tag {
	case tryOpen:
		return f.into(&t.Open)
	case tryRetryAt:
		return f.into(&t.RetryAt)
	case tryAttempt:
		if len(t.History) >= MostPairs {
			return fmt.Errorf("%w: it has too many attempts", job.ErrDamaged)
		}
		a := job.Attempt{ExitCode: -1}
		err := readAttempt(f.v, &a)
		t.History = append(t.History, a)
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

func attemptFields(a *job.Attempt) []byte {
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

func readAttempt(b []byte, a *job.Attempt) error {
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

// Add records an attempt that has ended, and keeps only the last ones.
func (t *Tries) Add(a job.Attempt) {
	t.Started++
	a.Number = t.Started
	if len(t.History) >= mostHistory {
		t.History = append(t.History[:0], t.History[1:]...)
	}
	t.History = append(t.History, a)
}

// CutOff reports whether an attempt ended without its handler, which may then have
// stopped at any point.
func (t *Tries) CutOff() bool {
	return t.Crashes > 0 || t.Lost > 0 || slices.ContainsFunc(t.History, func(a job.Attempt) bool {
		return a.Outcome == bullpen.Lost || a.Outcome == bullpen.Canceled
	})
}

// Cut counts an attempt whose node died with it.
func (t *Tries) Cut(now time.Time) {
	t.Lost++
	t.Open = false
	t.Add(job.Attempt{Outcome: bullpen.Lost, Ended: now, Error: "its node died", ExitCode: -1})
}
