package bullpen_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
)

// TestOutcomesAreThoseOfTheVectors keeps the words and numbers equal to the file
// that every SDK reads.
func TestOutcomesAreThoseOfTheVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("protocol/vectors/failures.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Outcomes []struct {
			Number bullpen.Outcome
			Word   string
		}
		NeverStarted []struct{ Word string } `json:"never_started"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	want, got := map[bullpen.Outcome]string{}, map[bullpen.Outcome]string{}
	for _, o := range vectors.Outcomes {
		want[o.Number] = o.Word
	}
	for _, o := range bullpen.Outcomes() {
		got[o] = o.String()
		if parsed, err := bullpen.ParseOutcome(o.String()); err != nil || parsed != o {
			t.Errorf("ParseOutcome(%q) = %v, %v", o.String(), parsed, err)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("outcomes differ from protocol/vectors/failures.json (-file +code):\n%s", d)
	}
	sentinels := map[string]error{
		"closed": bullpen.ErrClosed, "overloaded": bullpen.ErrOverloaded, "unknown task": bullpen.ErrUnknownTask,
		"refused": bullpen.ErrRefused, "start": bullpen.ErrStart, "canceled": context.Canceled,
	}
	for _, n := range vectors.NeverStarted {
		if sentinels[n.Word] == nil {
			t.Errorf("the vectors know %q as a reason for never having started; the package has no error for it", n.Word)
		}
		delete(sentinels, n.Word)
	}
	for word := range sentinels {
		t.Errorf("the package has an error for %q, which the vectors do not know", word)
	}
}

func TestParseOutcomeOfUnknownWord(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "OK", "killed"} {
		if _, err := bullpen.ParseOutcome(word); err == nil || !strings.Contains(err.Error(), "use one of ok, failed,") {
			t.Errorf("ParseOutcome(%q) = %v, want an error that lists the words", word, err)
		}
	}
	if got := bullpen.Outcome(99).String(); got != "outcome(99)" {
		t.Errorf("Outcome(99).String() = %q", got)
	}
}

func TestTaskErrorSays(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]bullpen.TaskError{
		"task ok":                                            {},
		`task "hash" failed: no such user`:                   {Task: "hash", Outcome: bullpen.Failed, Message: "no such user"},
		`task "hash" 7 panic: ValueError: bad`:               {Task: "hash", ID: "7", Outcome: bullpen.Panic, Type: "ValueError", Message: "bad"},
		"task crashed (worker ended by signal killed)":       {Outcome: bullpen.Crashed, Signal: "killed", ExitCode: -1, Detail: "left out"},
		"task crashed: EOF (worker exited with status 3)":    {Outcome: bullpen.Crashed, ExitCode: 3, Err: io.EOF, Stack: "left out"},
		"task crashed: its words (worker ended by signal x)": {Outcome: bullpen.Crashed, Signal: "x", ExitCode: 3, Message: "its words", Err: io.EOF},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error() = %q, want %q", got, want)
		}
	}
}

func TestTaskErrorIs(t *testing.T) {
	t.Parallel()
	for _, o := range bullpen.Outcomes() {
		err := fmt.Errorf("wrapped: %w", &bullpen.TaskError{Outcome: o, Err: io.EOF})
		if got := errors.Is(err, context.DeadlineExceeded); got != (o == bullpen.Timeout) {
			t.Errorf("%v is context.DeadlineExceeded: %v", o, got)
		}
		if got := errors.Is(err, context.Canceled); got != (o == bullpen.Canceled) {
			t.Errorf("%v is context.Canceled: %v", o, got)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v hides its cause", o)
		}
		if got, started := bullpen.OutcomeOf(err); got != o || !started {
			t.Errorf("OutcomeOf(%v) = %v, %v", err, got, started)
		}
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.EOF, true},
		{bullpen.Fail("later", true), true},
		{bullpen.Fail("never", false), false},
		{fmt.Errorf("wrapped: %w", bullpen.Fail("never", false)), false},
		{&bullpen.TaskError{Retryable: true}, true},
		{&bullpen.TaskError{Retryable: false, Err: bullpen.Fail("later", true)}, false},
	} {
		if got := bullpen.Retryable(c.err); got != c.want {
			t.Errorf("Retryable(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestLimitsCheckReportsAllFaults(t *testing.T) {
	t.Parallel()
	if err := (bullpen.Limits{Timeout: 1, Memory: 1, CPU: 0.5, Output: 1}).Check(); err != nil {
		t.Errorf("Check() of sound limits = %v", err)
	}
	err := bullpen.Limits{Timeout: -1, Memory: -1, CPU: -1, Output: -1}.Check()
	for _, field := range []string{"Timeout", "Memory", "CPU", "Output"} {
		if err == nil || !strings.Contains(err.Error(), "limit "+field+" is -1") {
			t.Errorf("Check() = %v, which does not mention %s", err, field)
		}
	}
}
