package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// Filter selects jobs for [Queue.List], [Queue.ListDead] and what is done to many
// of them. What is empty selects all.
type Filter struct {
	// Queue and Name select by queue and by task.
	Queue, Name string
	// Group, Schedule and Batch select by the group, the schedule that enqueued the
	// job, and the batch that it is a member of.
	Group, Schedule, Batch string
	// State is what to list: Scheduled (also those that wait for another
	// attempt), Queued (also those that run), Done (all that have ended, Canceled
	// and Dead too) or Dead.
	State State
	// Search selects jobs that have this text in their id, task, key, group or,
	// once they have ended, error; whether its letters are large or small makes no difference.
	Search string
	// Reason, Outcome (the word) and Cause select jobs that have ended; a cause is
	// a Fingerprint that [Queue.DeadCauses] gives.
	Reason         Reason
	Outcome, Cause string
	// Since and Before select by when the job ended, or was enqueued if it has not:
	// not before the one, and before the other.
	Since, Before time.Time
	// Newest lists the last ones first.
	Newest bool
	// Limit is the most jobs; default 100.
	Limit int
	// After goes on behind the last call's Page.Next; empty begins.
	After uint64
}

// longestSearch bounds Filter.Search.
const longestSearch = 256

// check reports every fault of f at once.
func (f *Filter) check() error {
	var errs []error
	if f.Queue != "" {
		errs = append(errs, checkToken("Filter.Queue", f.Queue))
	}
	if len(f.Search) > longestSearch {
		errs = append(errs, fmt.Errorf("Filter.Search has %d bytes: use %d at most", len(f.Search), longestSearch))
	}
	if f.Outcome != "" {
		if _, err := bullpen.ParseOutcome(f.Outcome); err != nil {
			errs = append(errs, fmt.Errorf("Filter.Outcome: %w", err))
		}
	}
	if f.Cause != "" && !isFingerprint(f.Cause) {
		errs = append(errs, fmt.Errorf("Filter.Cause is %q: use the Fingerprint of a cause, %d hexadecimal digits", f.Cause, fingerprintLength))
	}
	if !f.Since.IsZero() && !f.Before.IsZero() && !f.Since.Before(f.Before) {
		errs = append(errs, fmt.Errorf("Filter.Since %v is not before Filter.Before %v: exchange them", f.Since.Format(time.RFC3339), f.Before.Format(time.RFC3339)))
	}
	return errors.Join(errs...)
}

// selection is a Filter that was checked, and made ready for many jobs.
type selection struct {
	Filter

	stream  engine.Stream
	subject string
	needle  string // of Search, in small letters
	upTo    uint64 // the last sequence number that is looked at; 0 is no bound
}

func (f Filter) selection() (*selection, error) {
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("the filter is not valid: %w", err)
	}
	s := &selection{Filter: f, needle: strings.ToLower(f.Search)}
	queue := f.Queue
	if queue == "" {
		queue = "*"
	}
	switch f.State {
	case Scheduled, Retrying:
		s.stream, s.subject = engine.Jobs, "at.*"
	case Queued, Running:
		s.stream, s.subject = engine.Jobs, "job."+queue+".*.*"
	case Dead:
		s.stream, s.subject = engine.Dead, "dead."+queue+".*"
	default:
		s.stream, s.subject = engine.Outcomes, "out.*"
	}
	return s, nil
}

// selects tells whether a job is one of those that are meant.
func (s *selection) selects(i *Info) bool {
	if s.Queue != "" && i.Queue != s.Queue || s.Name != "" && i.Name != s.Name {
		return false
	}
	if s.Group != "" && i.Group != s.Group || s.Schedule != "" && i.Schedule != s.Schedule || s.Batch != "" && i.Batch != s.Batch {
		return false
	}
	if (s.Reason != "" || s.Outcome != "" || s.Cause != "") && !i.State.Ended() {
		return false
	}
	if s.Reason != "" && i.Reason != s.Reason || s.Outcome != "" && i.Outcome.String() != s.Outcome {
		return false
	}
	when := i.Enqueued
	if i.State.Ended() {
		when = i.Ended
	}
	if !s.Since.IsZero() && when.Before(s.Since) || !s.Before.IsZero() && !when.Before(s.Before) {
		return false
	}
	if s.Cause != "" && causeOf(i).Fingerprint != s.Cause {
		return false
	}
	return s.needle == "" || s.found(i)
}

// found looks for the text of Search.
func (s *selection) found(i *Info) bool {
	for _, text := range []string{i.ID, i.Name, i.Key, i.Group} {
		if contains(text, s.needle) {
			return true
		}
	}
	return i.Err != nil && contains(i.Err.Error(), s.needle)
}

// contains tells whether text has needle, which is in small letters, whatever the
// case of its own. It makes no copy of plain ASCII.
func contains(text, needle string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return strings.Contains(strings.ToLower(text), needle)
		}
	}
	for i := 0; i+len(needle) <= len(text); i++ {
		n := 0
		for n < len(needle) && small(text[i+n]) == needle[n] {
			n++
		}
		if n == len(needle) {
			return true
		}
	}
	return false
}

func small(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
