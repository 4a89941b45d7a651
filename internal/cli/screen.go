package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// How often progress is shown: where its line is rewritten, and where every
// time is a new line.
const (
	refresh     = 200 * time.Millisecond
	refreshSlow = 2 * time.Second
)

const eraseLine = "\r\x1b[K"

// screen is standard error: messages, and perhaps one line of progress that
// stays below them. It is safe for concurrent use.
type screen struct {
	out      *os.File
	terminal bool
	progress bool

	mu    sync.Mutex
	shown bool // a line of progress stands there; +checklocks:mu
}

func newScreen(out *os.File, progress string) *screen {
	s := &screen{out: out, terminal: isTerminal(out)}
	s.progress = progress == "always" || progress == "auto" && s.terminal
	return s
}

// isTerminal tells whether people read f at once. A device that is not the null
// device and is open as standard error is a terminal; those that cannot move
// their cursor are told apart by TERM.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// print writes text, which ends with a line feed.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		text = eraseLine + text
		s.shown = false
	}
	fmt.Fprint(s.out, text)
}

// follow shows what status says until quit is closed.
func (s *screen) follow(status func() string, quit chan struct{}) {
	if !s.progress {
		return
	}
	every := refresh
	if !s.terminal {
		every = refreshSlow
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.show(status())
		case <-quit:
			s.show(status())
			s.print("")
			return
		}
	}
}

func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		fmt.Fprintln(s.out, text)
		return
	}
	fmt.Fprint(s.out, eraseLine+text)
	s.shown = true
}

// status is the line of progress.
func (r *run) status() string {
	read, all := r.flow.seen()
	stats := r.pool.Stats()
	ended, failed, skipped := r.ended.Load(), r.failed.Load(), r.skipped.Load()
	rate := r.rate(ended)
	more := "+"
	if all {
		more = ""
	}
	text := fmt.Sprintf("bullpen: %d/%d%s done, %s/s, %d running, %d workers, %d failed",
		ended+skipped, read, more, figure(rate), stats.InHand, stats.Idle+stats.Busy, failed)
	if left := read - ended - skipped - r.notRun.Load(); all && left > 0 && rate > 0 {
		text += ", ETA " + time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second).String()
	}
	return text
}

func (r *run) rate(ended int64) float64 {
	return float64(ended) / max(time.Since(r.begun).Seconds(), 1e-9)
}

// figure writes a rate with as many digits as say something.
func figure(rate float64) string {
	if rate >= 100 {
		return fmt.Sprintf("%.0f", rate)
	}
	return fmt.Sprintf("%.3g", rate)
}

// failure tells of a task that failed.
func failure(it *item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bullpen: task %d", it.index)
	if len(it.line) > 0 {
		fmt.Fprintf(&b, " (%q)", it.excerpt())
	}
	fmt.Fprintf(&b, ": %s", it.outcome())
	if why := reason(it.err); why != "" {
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
	if te != nil {
		indent(&b, te.Stack)
		if !strings.Contains(te.Stack, te.Detail) && !strings.HasSuffix(te.Message, te.Detail) {
			indent(&b, te.Detail)
		}
	}
	return b.String()
}

// indent appends the last lines of a text that is not ours.
func indent(b *strings.Builder, text string) {
	const most = 20
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-most):] {
		if line != "" {
			b.WriteString("  | " + printable(line) + "\n")
		}
	}
}

// printable takes control characters out of a text that is not ours, so that it
// cannot play with the terminal.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unfit(c) && c != '\t' {
			return -1
		}
		return c
	}, text)
}

// conclude prints how the run ended, and returns the exit status.
func (r *run) conclude() int {
	r.mu.Lock()
	code, cause := r.code, r.cause
	r.mu.Unlock()
	failed := r.failed.Load()
	if code == exitOK && failed > 0 {
		code = exitFailed
	}
	if code == exitPipe {
		return code
	}
	if cause != nil {
		r.screen.print(r.explain(code, cause))
	}
	if r.screen.progress || r.options.summary || failed > 0 || code == exitInterrupted {
		r.screen.print(r.total())
	}
	return code
}

func (r *run) explain(code int, cause error) string {
	if errors.Is(cause, bullpen.ErrUnknownTask) {
		return fmt.Sprintf("bullpen: %v; choose one with --task\n", cause)
	}
	if code != exitStart {
		return fmt.Sprintf("bullpen: %v\n", cause)
	}
	first, rest, _ := strings.Cut(cause.Error(), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "bullpen: the workers could not start: %s\n", strings.TrimPrefix(first, bullpen.ErrStart.Error()+": "))
	indent(&b, rest)
	if start, ok := errors.AsType[*process.StartError](cause); ok && start.Exit != "" && r.options.protocol == process.Frames {
		b.WriteString("Workers of --protocol frames use a worker SDK; for a filter such as grep leave --protocol out.\n")
	}
	return b.String()
}

// total is the summary of a run.
func (r *run) total() string {
	ended, failed := r.ended.Load(), r.failed.Load()
	took := time.Since(r.begun)
	parts := []string{fmt.Sprintf("%d ok", ended-failed)}
	var words []string
	for word := range r.outcomes {
		words = append(words, word)
	}
	slices.Sort(words)
	for _, word := range words {
		parts = append(parts, fmt.Sprintf("%d %s", r.outcomes[word], word))
	}
	if n := r.skipped.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d done before", n))
	}
	if n := r.notRun.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not run", n))
	}
	return fmt.Sprintf("bullpen: %d tasks: %s; %s tasks/s in %v; %d workers started\n",
		ended, strings.Join(parts, ", "), figure(float64(ended)/max(took.Seconds(), 1e-9)), took.Round(time.Millisecond), r.pool.Stats().Started)
}
