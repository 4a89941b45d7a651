package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// item is one task of a run, from the line that was read to the result that is
// written. It has one holder at a time: who reads, the pool, who writes.
type item struct {
	index    int64    // place in the input, from 1
	place    int64    // place among those that are handed on, from 0
	line     []byte   // as read; of several values, with spaces between them
	values   []string // columns; nil: the payload, or the file's name, is the only one
	name     []byte   // of the file, nil without --files
	payload  []byte
	bytes    int64  // that count against the bound
	hash     digest // of the payload, with --joblog
	logged   bool   // input and command are for the log
	skip     bool   // it ended well in an earlier run
	attempts int
	slot     int  // of its process (exec)
	final    bool // no further attempt is possible

	handed time.Time // when it was given to the pool last; zero unless wanted
	ended  time.Time
	result bullpen.Result
	err    error
	stderr []byte         // of its process (exec)
	spill  func(b []byte) // takes what stderr must not hold
}

// stderrMost is the most standard error of a task that is held until its end.
const stderrMost = 64 << 10

// Stderr takes standard error of the item's process, for its end. What is too much to
// be held is shown at once.
func (it *item) Stderr(text []byte) {
	if len(it.stderr)+len(text) > stderrMost {
		it.spill(append(it.stderr, text...))
		it.stderr = nil
		return
	}
	it.stderr = append(it.stderr, text...)
}

// Progress is for workers that tell it.
func (it *item) Progress(float64, string) {}

// Log is for lines, which Stderr has.
func (it *item) Log(bullpen.LogLine) {}

// began is about when its handler did.
func (it *item) began() time.Time {
	if it.handed.IsZero() {
		return it.ended
	}
	return it.handed.Add(it.result.Stats.Waited)
}

// neverWords are the words for tasks that never started, as in
// protocol/vectors/failures.json.
var neverWords = []struct {
	cause error
	word  string
}{
	{bullpen.ErrClosed, wordClosed},
	{bullpen.ErrOverloaded, "overloaded"},
	{bullpen.ErrUnknownTask, "unknown task"},
	{bullpen.ErrRefused, wordRefused},
	{bullpen.ErrStart, wordStart},
	{context.Canceled, "canceled"},
}

const (
	wordOK      = "ok"
	wordClosed  = "closed"
	wordRefused = "refused"
	wordStart   = "start"
)

// outcome is the word for how the item ended.
func (it *item) outcome() string { return outcomeOf(it.err) }

func outcomeOf(err error) string {
	if o, started := bullpen.OutcomeOf(err); started {
		return o.String()
	}
	for _, n := range neverWords {
		if errors.Is(err, n.cause) {
			return n.word
		}
	}
	return wordRefused
}

// refusal is why a task is not handed over at all.
type refusal struct{ text string }

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return target == bullpen.ErrRefused }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// reason says why err came about, on one line and without the outcome's word.
func reason(err error) string {
	te, ok := errors.AsType[*bullpen.TaskError](err)
	if !ok {
		text := err.Error()
		for _, n := range neverWords {
			text = strings.TrimPrefix(text, n.cause.Error()+": ")
		}
		return strings.ReplaceAll(text, "\n", "; ")
	}
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	add(te.Type)
	if te.Message != "" {
		add(te.Message)
	} else if te.Err != nil {
		add(te.Err.Error())
	}
	switch {
	case te.Signal != "":
		add("signal " + te.Signal)
	case te.ExitCode > 0 && !strings.HasPrefix(te.Message, "exit status "):
		add(fmt.Sprintf("exit status %d", te.ExitCode))
	}
	return strings.ReplaceAll(strings.Join(parts, ": "), "\n", "; ")
}

// again reports whether another attempt is worth while: not for what was taken
// back, refused, or called final by its handler.
func again(err error) bool {
	te, ok := errors.AsType[*bullpen.TaskError](err)
	return ok && te.Retryable && te.Outcome != bullpen.Canceled
}

// excerpt is the beginning of the item's line, for people.
func (it *item) excerpt() string {
	const most = 60
	text := strings.ToValidUTF8(string(it.line[:min(len(it.line), most)]), "\uFFFD")
	if len(it.line) > most {
		text += "…"
	}
	return text
}
