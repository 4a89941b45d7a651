package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

var errStart = bullpen.ErrStart

func joined() error {
	return fmt.Errorf("bullpen.yaml: %w", errors.Join(errors.New("one"), errors.New("two")))
}

// sentinels finds the errors that a package exports: the names that begin with
// Err.
func sentinels(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				for _, n := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Err") {
						names = append(names, f.Name.Name+"."+n.Name)
					}
				}
			}
		}
	}
	return names
}

// everyError has what each error is answered with.
var everyError = map[string]struct {
	err   error
	cause problem.Cause
}{
	"api.ErrNoPool":          {ErrNoPool, problem.UnknownPool},
	"api.ErrNotEphemeral":    {ErrNotEphemeral, problem.Forbidden},
	"api.ErrNested":          {ErrNested, problem.Nested},
	"api.ErrBusyID":          {ErrBusyID, problem.BusyID},
	"api.ErrManaged":         {ErrManaged, problem.Managed},
	"queue.ErrBackup":        {queue.ErrBackup, problem.Refused},
	"job.ErrNoSchedule":      {job.ErrNoSchedule, problem.NotFound},
	"job.ErrOverlap":         {job.ErrOverlap, problem.Overlap},
	"api.ErrQueueOnly":       {ErrQueueOnly, problem.Refused},
	"api.ErrNoWorker":        {ErrNoWorker, problem.NotFound},
	"job.ErrNotFound":        {job.ErrNotFound, problem.NotFound},
	"job.ErrEnded":           {job.ErrEnded, problem.Ended},
	"job.ErrNotEnded":        {job.ErrNotEnded, problem.NotEnded},
	"job.ErrPayloadGone":     {job.ErrPayloadGone, problem.PayloadGone},
	"job.ErrIncomplete":      {job.ErrIncomplete, problem.Incomplete},
	"job.ErrAfter":           {job.ErrAfter, problem.BadRequest},
	"job.ErrFull":            {job.ErrFull, problem.Full},
	"job.ErrClosed":          {job.ErrClosed, problem.Closed},
	"job.ErrStore":           {job.ErrStore, problem.Store},
	"job.ErrDamaged":         {job.ErrDamaged, problem.Internal},
	"job.ErrNewer":           {job.ErrNewer, problem.Internal},
	"job.ErrUnconfirmed":     {job.ErrUnconfirmed, problem.Unconfirmed},
	"bullpen.ErrClosed":      {bullpen.ErrClosed, problem.Closed},
	"bullpen.ErrOverloaded":  {bullpen.ErrOverloaded, problem.Overloaded},
	"bullpen.ErrUnknownTask": {bullpen.ErrUnknownTask, problem.UnknownTask},
	"bullpen.ErrRefused":     {bullpen.ErrRefused, problem.Refused},
	"bullpen.ErrStart":       {bullpen.ErrStart, problem.StartFailed},
	"bullpen.ErrOutput":      {bullpen.ErrOutput, problem.Internal},  // of handlers, whose task has the outcome
	"bullpen.ErrWaiting":     {bullpen.ErrWaiting, problem.Internal}, // of handles only, of which there are none here
}

// TestEveryErrorHasItsAnswer has every error that the packages below export.
func TestEveryErrorHasItsAnswer(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".", "../../../job", "../../../queue", "../../.."} {
		names := sentinels(t, folder)
		if len(names) == 0 {
			t.Errorf("no errors are found in %s", folder)
		}
		for _, name := range names {
			row, known := everyError[name]
			if !known {
				t.Errorf("%s has no row", name)
				continue
			}
			p := problemOf(fmt.Errorf("some call: %w", row.err))
			if p.Cause != row.cause || p.Outcome != "" || !strings.Contains(p.Detail, row.err.Error()) {
				t.Errorf("%s is answered with %+v", name, p)
			}
		}
	}
	for err, outcome := range map[error]string{context.Canceled: "canceled", context.DeadlineExceeded: "timeout"} {
		if p := problemOf(fmt.Errorf("pool: %w", err)); p.Cause != problem.EndedBadly || p.Outcome != outcome || p.Failure != nil {
			t.Errorf("a task that did not start for %v is answered with %+v", err, p)
		}
	}
	if p := problemOf(errTest); p.Cause != problem.Internal {
		t.Errorf("an error that nobody knows is answered with %+v", p)
	}
}

// TestEveryEndIsNoServerError has every outcome, of tasks and jobs, and every
// reason.
func TestEveryEndIsNoServerError(t *testing.T) {
	t.Parallel()
	for _, o := range bullpen.Outcomes() {
		if o == bullpen.OK {
			continue
		}
		failure := &bullpen.TaskError{Outcome: o, Task: "t", Message: "m", Err: bullpen.ErrClosed} // its cause does not count
		p := problemOf(fmt.Errorf("x: %w", failure))
		if p.Cause != problem.EndedBadly || p.Outcome != o.String() || p.Failure == nil || p.Failure.Outcome.Word() != o.String() || p.Status != 422 {
			t.Errorf("a task that ended %v is answered with %+v", o, p)
		}
		for _, r := range reasons {
			p := problemOf(&job.EndError{ID: nobody, Outcome: o, Reason: job.Reason(r), Attempts: 3, Task: failure})
			if p.Cause != problem.EndedBadly || p.Outcome != o.String() || p.Reason != r || p.Job != nobody || p.Attempts != 3 || p.Failure == nil {
				t.Errorf("a job that ended %v, %s is answered with %+v", o, r, p)
			}
		}
	}
	p := problemOf(&job.EndError{ID: nobody, Outcome: bullpen.Timeout, Reason: job.Expired})
	if p.Failure != nil || p.Outcome != "timeout" {
		t.Errorf("a job that never ran is answered with %+v", p)
	}
}

// What a later version has recorded is reported in the words that the API has.
func TestAnOutcomeOfALaterVersion(t *testing.T) {
	t.Parallel()
	const later = bullpen.Outcome(bullpen.OutcomeCount)
	err := &job.EndError{ID: nobody, Outcome: later, Task: &bullpen.TaskError{Outcome: later, Message: "made way"}}
	if p := problemOf(err); p.Outcome != "lost" || p.Failure.Outcome.Word() != "lost" || !strings.Contains(p.Detail, "later version") {
		t.Errorf("it is answered with %+v", p)
	}
	text, broken := encode(&job.Info{ID: nobody, State: job.Done, Outcome: later, Err: err, History: []job.Attempt{{Outcome: later}}})
	var j Job
	if json.Unmarshal(text, &j) != nil || broken != nil {
		t.Fatalf("the job is %s, %v", text, broken)
	}
	if j.Outcome != "lost" || j.Reason != "newer" || !strings.Contains(j.Error, "later version") || j.History[0].Outcome != "lost" {
		t.Errorf("the job is %+v", j)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{MaxPayload: -1, MaxWait: -time.Second})
	for _, want := range []string{"Backend", "MaxPayload", "MaxWait"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    time.Duration
		want string
	}{{0, "0"}, {-5, "0"}, {1, "0.000000001"}, {time.Second, "1"}, {1500 * time.Millisecond, "1.5"}, {61*time.Second + 20*time.Microsecond, "61.00002"}} {
		if got := string(appendSeconds(nil, c.d)); got != c.want {
			t.Errorf("%d ns is %q, want %q", c.d, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"taks": "task", "Priority": "priority", "max-backoff": "max_backoff", "dealy": "delay", "zzzzzz": "", "w": "", "timeuot": "timeout"} {
		if got := nearest(name, submitParams); got != want {
			t.Errorf("%q is near to %q, want %q", name, got, want)
		}
	}
}
