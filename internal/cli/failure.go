package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// failure describes a task that failed.
func (r *run) failure(it *item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bullpen: task %d", it.index)
	if len(it.line) > 0 {
		fmt.Fprintf(&b, " (%q)", it.excerpt())
	}
	fmt.Fprintf(&b, ": %s", it.outcome())
	if why := r.reason(it.err); why != "" {
		b.WriteString(": " + printable(why))
	}
	te, _ := errors.AsType[*bullpen.TaskError](it.err)
	var notes []string
	if te != nil && te.Worker != "" {
		notes = append(notes, "worker "+te.Worker)
	}
	if it.attempts > 1 {
		notes = append(notes, fmt.Sprintf("%d attempts", it.attempts))
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, ", ") + ")")
	}
	b.WriteByte('\n')
	if te == nil {
		return b.String()
	}
	indent(&b, te.Stack, lastLines)
	switch {
	case strings.HasSuffix(te.Message, te.Detail) || strings.Contains(te.Stack, te.Detail):
	case len(it.stderr) > 0:
		indent(&b, string(it.stderr), stderrMost)
	default:
		indent(&b, te.Detail, lastLines)
	}
	return b.String()
}

// reason returns the reason of err. The advice for a program that buffers its output
// is added only once.
func (r *run) reason(err error) string {
	if !errors.Is(err, process.ErrUnanswered) {
		return reason(err)
	}
	if r.hinted {
		return "no answer, as above"
	}
	r.hinted = true
	return reason(err)
}

// lastLines is how many lines of untrusted text are shown.
const lastLines = 20

// indent appends the last lines of an untrusted text.
func indent(b *strings.Builder, text string, most int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-most):] {
		if line != "" {
			b.WriteString("  | " + printable(line) + "\n")
		}
	}
}

// spill prints what a process wrote to standard error, on a terminal without control
// characters.
func (r *run) spill(text []byte) {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if r.screen.terminal {
			line = printable(strings.TrimSuffix(line, "\n")) + "\n"
		}
		b.WriteString(line)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' && !r.screen.terminal {
		b.WriteByte('\n')
	}
	r.screen.print(b.String())
}

func (r *run) explain(code int, cause error) string {
	if errors.Is(cause, bullpen.ErrUnknownTask) {
		return fmt.Sprintf("bullpen: %v; choose one with --task\n", cause)
	}
	if code != exitStart {
		return fmt.Sprintf("bullpen: %v\n", cause)
	}
	if errors.Is(cause, process.ErrUnanswered) {
		return fmt.Sprintf("bullpen: no worker answers, giving up: %s\n", r.reason(cause))
	}
	first, rest, _ := strings.Cut(cause.Error(), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "bullpen: the workers could not start: %s\n", strings.TrimPrefix(first, bullpen.ErrStart.Error()+": "))
	indent(&b, rest, lastLines)
	if start, ok := errors.AsType[*process.StartError](cause); ok && start.Exit != "" && r.options.protocol == process.Frames {
		b.WriteString("With --protocol frames workers must use a worker SDK; for a filter such as grep leave out --protocol.\n")
	}
	return b.String()
}
