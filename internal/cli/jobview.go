package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// toneOf returns the color of a state.
func toneOf(s job.State) tone {
	switch s {
	case job.Done:
		return toneGood
	case job.Dead:
		return toneBad
	case job.Running:
		return toneNone
	case job.Retrying:
		return toneWarn
	default:
		return toneFaint
	}
}

// jobTable returns a list of jobs as a table.
func jobTable(jobs []job.Info, now time.Time) *table {
	t := newTable("ID", "POOL", "TASK", "STATE", "PRIORITY", ">AGE", ">TRIES", ">RAN", "KEY", "NOTE")
	for i := range jobs {
		j := &jobs[i]
		tries, ran, priority, key := "", "", "", j.Key
		if strings.HasPrefix(key, "bullpen.") {
			key = "" // internal key of a job that retries another
		}
		if j.Attempts > 0 {
			tries = fmt.Sprint(j.Attempts)
		}
		if j.Stats.Ran > 0 {
			ran = ageText(j.Stats.Ran)
		}
		if j.Priority != job.Normal {
			priority = j.Priority.String()
		}
		t.addCells(
			cell{text: j.ID}, cell{text: j.Queue}, cell{text: j.Name}, cell{j.State.String(), toneOf(j.State)}, cell{text: priority},
			cell{text: sinceText(j.Enqueued, now)}, cell{text: tries}, cell{text: ran}, cell{text: key}, cell{text: jobNote(j, now)},
		)
	}
	return t
}

// jobNote returns other noteworthy facts about a job, in a few words.
func jobNote(j *job.Info, now time.Time) string {
	switch {
	case j.State == job.Dead:
		return strings.Trim(string(j.Reason)+": "+endCause(j), ": ")
	case (j.State == job.Scheduled || j.State == job.Retrying) && !j.At.IsZero():
		return sinceText(j.At, now)
	case j.State == job.Running && (j.Progress > 0 || j.Note != ""):
		return strings.TrimSpace(fmt.Sprintf("%.0f%% %s", 100*j.Progress, j.Note))
	}
	return ""
}

// endCause returns why a job ended badly, without its name.
func endCause(j *job.Info) string {
	if te := failureOf(j); te != nil {
		return strings.TrimSuffix(te.Outcome.String()+": "+causeOf(te), ": ")
	}
	// Lists have only the cause.
	outcome, text := j.Outcome.String(), j.ErrorText()
	if text == outcome {
		return outcome
	}
	return strings.TrimSuffix(outcome+": "+text, ": ")
}

// failureOf returns the error of the last attempt of a job that ended badly; nil if it is
// not known.
func failureOf(j *job.Info) *bullpen.TaskError {
	if end, ok := errors.AsType[*job.EndError](j.Err); ok {
		return end.Task
	}
	return nil
}

// pairs is a list of names and values for display; empty values are left out.
type pairs struct {
	table table
}

func (p *pairs) add(name, value string) { p.addTone(name, value, toneNone) }

func (p *pairs) addTone(name, value string, t tone) {
	if value != "" {
		p.table.addCells(cell{name, toneFaint}, cell{value, t})
	}
}

// draw returns the pairs, one per line.
func (p *pairs) draw(s style) string {
	p.table.titles = []string{"", ""}
	_, text, _ := strings.Cut(p.table.draw(style{colours: s.colours}), "\n")
	return text
}

// moreThan formats n; empty if it is zero.
func moreThan[T int | int64 | uint64](n T) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func whenText(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	ago := sinceText(t, now)
	if !strings.HasPrefix(ago, "in ") && ago != "now" {
		ago += " ago"
	}
	return t.Local().Format("2006-01-02 15:04:05") + " (" + ago + ")"
}

func spanText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return ageText(d)
}

func sizeOf(n int64) string {
	if n <= 0 {
		return ""
	}
	return sizeText(n)
}

// jobText returns all information about a job, for display.
func jobText(j *job.Info, now time.Time, s style) string {
	var p pairs
	p.add("id", j.ID)
	p.add("pool", j.Queue)
	p.add("task", j.Name)
	state := j.State.String()
	if j.State == job.Dead && j.Reason != "" {
		state += " (" + string(j.Reason) + ")"
	}
	p.addTone("state", state, toneOf(j.State))
	if j.State == job.Dead {
		p.addTone("cause", endCause(j), toneBad)
	}
	if j.State == job.Running && j.Progress > 0 {
		p.add("progress", fmt.Sprintf("%.0f%%", 100*j.Progress))
	}
	p.add("note", j.Note)
	p.add("key", j.Key)
	if j.Queue != "" { // otherwise its record is damaged
		p.add("priority", j.Priority.String())
	}
	p.add("enqueued", whenText(j.Enqueued, now))
	if !j.State.Ended() {
		p.add("starts", whenText(j.At, now))
	}
	p.add("deadline", whenText(j.Deadline, now))
	p.add("ended", whenText(j.Ended, now))
	p.add("attempts", moreThan(j.Attempts))
	p.add("crashes", moreThan(j.Crashes))
	p.add("node", j.Node)
	p.add("worker", j.Worker)
	p.add("waited", spanText(j.Stats.Waited))
	p.add("ran", spanText(j.Stats.Ran))
	p.add("peak memory", sizeOf(j.Stats.PeakMemory))
	p.add("payload", sizeOf(int64(j.PayloadSize)))
	p.add("result", sizeOf(int64(j.ResultSize)))
	p.add("group", j.Group)
	p.add("compensate", j.Compensate)
	p.add("bury", j.Bury)
	p.add("parent", j.Parent)
	p.add("schedule", j.Schedule)
	p.add("tick", whenText(j.Tick, now))
	for _, name := range slices.Sorted(maps.Keys(j.Meta)) {
		p.add("meta "+name, j.Meta[name])
	}
	var b strings.Builder
	b.WriteString(p.draw(s))
	evidence(&b, j, now, s)
	return b.String()
}

// evidence appends the history and output of a job's attempts.
func evidence(b *strings.Builder, j *job.Info, now time.Time, s style) {
	if len(j.History) > 0 {
		t := newTable(">#", "OUTCOME", ">RAN", ">ENDED", ">MEMORY", "WORKER", "NODE", "ERROR")
		for _, a := range j.History {
			bad := toneBad
			if a.Outcome == bullpen.OK {
				bad = toneGood
			}
			t.addCells(
				cell{text: fmt.Sprint(a.Number)}, cell{a.Outcome.String(), bad}, cell{text: spanText(a.Ran)}, cell{text: sinceText(a.Ended, now)},
				cell{text: sizeOf(a.PeakMemory)}, cell{text: a.Worker}, cell{text: a.Node}, cell{text: attemptError(&a)},
			)
		}
		b.WriteString("\nattempts\n" + t.draw(s))
	}
	if te := failureOf(j); te != nil && te.Stack+te.Detail != "" {
		b.WriteString("\nfailure" + detailText(te) + "\n")
	}
	if len(j.Lines) > 0 {
		b.WriteString("\nlast lines\n")
		for i := range j.Lines {
			b.WriteString("  " + lineText(&j.Lines[i]) + "\n")
		}
	}
}

func attemptError(a *job.Attempt) string {
	text := a.Error
	switch {
	case a.Signal != "" && !strings.Contains(text, a.Signal):
		text = strings.TrimSpace(text + " (signal " + a.Signal + ")")
	case a.Signal == "" && a.ExitCode > 0 && !strings.Contains(text, fmt.Sprint(a.ExitCode)):
		text = strings.TrimSpace(text + fmt.Sprintf(" (exit status %d)", a.ExitCode))
	}
	return text
}

// lineText formats a line that a task logged or printed.
func lineText(l *bullpen.LogLine) string {
	text := plain(l.Text)
	if l.Stream == "log" && l.Level != 0 {
		text = strings.ToLower(slog.Level(l.Level).String()) + ": " + text
	}
	if l.Time.IsZero() {
		return text
	}
	return l.Time.Local().Format("15:04:05.000") + "  " + text
}

// jobResult is the JSON of a job and its result: Text if that is text, otherwise Binary.
type jobResult struct {
	job    *job.Info
	Text   *string `json:"result,omitempty"`
	Binary []byte  `json:"result_base64,omitempty"`
}

// withResult returns a job and its result, for their JSON.
func withResult(j *job.Info, result []byte) jobResult {
	if !utf8.Valid(result) {
		return jobResult{job: j, Binary: result}
	}
	text := string(result)
	return jobResult{job: j, Text: &text}
}

// MarshalJSON encodes j as one object.
func (j jobResult) MarshalJSON() ([]byte, error) {
	text, err := j.job.MarshalJSON()
	if err != nil {
		return nil, err
	}
	type plain jobResult
	result, err := jsonvalue.Marshal(plain(j))
	if err != nil || len(result) == len("{}") {
		return text, err
	}
	return append(append(text[:len(text)-1], ','), result[1:]...), nil
}
