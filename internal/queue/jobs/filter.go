package jobs

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// selection is a Filter that was checked and prepared for use on many jobs.
type selection struct {
	job.Filter

	stream  engine.Stream
	subject string
	needle  string // the text of Search, in lower case
	upTo    uint64 // the last sequence number to look at; 0 is no bound
	after   uint64 // the sequence number to begin after; 0 begins
}

func newSelection(f job.Filter, of part) (*selection, error) {
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("the filter is not valid: %w", err)
	}
	s := &selection{Filter: f, needle: strings.ToLower(f.Search)}
	queue := f.Queue
	if queue == "" {
		queue = "*"
	}
	switch of {
	case partScheduled:
		s.stream, s.subject = engine.Jobs, "at.*"
	case partQueued:
		s.stream, s.subject = engine.Jobs, "job."+queue+".*.*"
	case partDead:
		s.stream, s.subject = engine.Dead, "dead."+queue+".*"
	case partEnded:
		s.stream, s.subject = engine.Outcomes, "out.*"
	}
	return s, nil
}

// selects reports whether the filter selects a job.
func (s *selection) selects(i *job.Info) bool {
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

// found reports whether a job contains the text of Search.
func (s *selection) found(i *job.Info) bool {
	for _, text := range []string{i.ID, i.Name, i.Key, i.Group} {
		if contains(text, s.needle) {
			return true
		}
	}
	return i.Err != nil && contains(i.Err.Error(), s.needle)
}

// contains reports whether text contains needle, ignoring case; needle is in lower case.
// It makes no copy of plain ASCII.
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
