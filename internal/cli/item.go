package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// item is one task of a run, from reading its line to writing its result. One
// goroutine owns it at a time: first the reader, then the pool, then the writer.
type item struct {
	index    int64    // position in the input, from 1
	position int64    // position among the items to be written, from 0
	line     []byte   // as read; several values are joined with spaces
	values   []string // columns; nil: the payload, or the file's name, is the only one
	name     []byte   // name of the file; nil without --files
	payload  []byte
	bytes    int64  // bytes that count towards the bound
	hash     digest // hash of the payload, with --joblog
	logged   bool   // log input and command
	skip     bool   // completed in an earlier run
	attempts int
	slot     int  // slot of its process (exec)
	final    bool // no further attempt is possible

	handed time.Time // when it was last submitted to the pool; zero unless needed
	ended  time.Time
	result bullpen.Result
	err    error
	stderr []byte         // standard error of its process (exec)
	spill  func(b []byte) // receives what stderr must not hold
}

// stderrMost is how much standard error of a task is held until its end, in bytes.
const stderrMost = 64 << 10

// Stderr receives standard error of the item's process and holds it until the end.
// What exceeds stderrMost is shown at once.
func (it *item) Stderr(text []byte) {
	if len(it.stderr)+len(text) > stderrMost {
		it.spill(append(it.stderr, text...))
		it.stderr = nil
		return
	}
	it.stderr = append(it.stderr, text...)
}

// Progress ignores progress.
func (it *item) Progress(float64, string) {}

// Log ignores lines; Stderr has them.
func (it *item) Log(bullpen.LogLine) {}

// began returns about when the handler started.
func (it *item) began() time.Time {
	if it.handed.IsZero() {
		return it.ended
	}
	return it.handed.Add(it.result.Stats.Waited)
}

// neverWords are the outcomes of tasks that never started, as in
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

// outcome returns the word for the item's outcome.
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

// refusal is why a task is not submitted at all.
type refusal struct{ text string }

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return target == bullpen.ErrRefused }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// reason returns the reason of err on one line, without the outcome.
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

// again reports whether another attempt makes sense. It does not after a
// cancellation, a refusal, or an error that the handler called final.
func again(err error) bool {
	te, ok := errors.AsType[*bullpen.TaskError](err)
	return ok && te.Retryable && te.Outcome != bullpen.Canceled
}

// excerpt returns the beginning of the item's line, for display.
func (it *item) excerpt() string {
	const most = 60
	text := strings.ToValidUTF8(string(it.line[:min(len(it.line), most)]), "\uFFFD")
	if len(it.line) > most {
		text += "…"
	}
	return text
}
