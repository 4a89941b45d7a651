package job

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestStatesDocument keeps docs/job-states.md equal to the tables in the code.
func TestStatesDocument(t *testing.T) {
	t.Parallel()
	if err := errors.Join(jobStates.Check(Scheduled, Queued), batchStates.Check(BatchOpen)); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile("../docs/job-states.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{jobStates.Markdown(), batchStates.Markdown()} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/job-states.md does not have this table:\n%s", want)
		}
	}
}

// TestWordsOfStates has every state and priority written and read again.
func TestWordsOfStates(t *testing.T) {
	t.Parallel()
	for s := Scheduled; s <= Canceled; s++ {
		if got, err := ParseState(s.String()); got != s || err != nil {
			t.Errorf("%v is read as %v, %v", s, got, err)
		}
		if final := len(jobStates.Moves[s]) == 0; s.Ended() != final {
			t.Errorf("%v: Ended is %v, and the table says %v", s, s.Ended(), final)
		}
	}
	for p := range Priority(Priorities) {
		if got, err := ParsePriority(p.String()); got != p || err != nil {
			t.Errorf("%v is read as %v, %v", p, got, err)
		}
	}
	if _, err := ParseState("asleep"); err == nil {
		t.Error("asleep is a state")
	}
	if _, err := ParsePriority("urgent"); err == nil {
		t.Error("urgent is a priority")
	}
	if s := State(99).String() + Priority(99).String(); s == "" {
		t.Error("numbers that are none say nothing")
	}
}

// TestWordsOfEvents wants each kind of event to have words.
func TestWordsOfEvents(t *testing.T) {
	t.Parallel()
	for k := Redelivered; k <= BatchTookBack; k++ {
		if k.String() == "" {
			t.Errorf("event %d has no words", k)
		}
	}
	if EventKind(99).String() == "" {
		t.Error("a number that is no kind says nothing")
	}
}
