package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// How often progress is shown: if its line is rewritten, and if each update is a new
// line.
const (
	refresh     = 200 * time.Millisecond
	refreshSlow = 2 * time.Second
)

const eraseLine = "\r\x1b[K"

// screen is standard error: messages, and optionally a line of progress below them.
// It is safe for concurrent use.
type screen struct {
	out      *os.File
	terminal bool
	progress bool
	joint    bool // results go to a terminal too, most likely the same one

	mu     sync.Mutex
	shown  bool // the line of progress is visible; guarded by mu
	within bool // the last result did not end its line; guarded by mu
}

func newScreen(out *os.File, progress string) *screen {
	s := &screen{out: out, terminal: isTerminal(out)}
	s.progress = progress == "always" || progress == "auto" && s.terminal
	return s
}

// isTerminal reports whether f is a terminal. A character device other than the null
// device is assumed to be one; TERM says whether its cursor can be moved.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// print prints text, which ends with a line feed or is empty.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shown:
		text = eraseLine + text
		s.shown = false
	case s.within && text != "":
		text = "\n" + text
		s.within = false
	}
	fmt.Fprint(s.out, text)
}

// results returns the writer for results: to itself or, if it is a terminal that also
// shows progress, a writer that hides the line of progress.
func (s *screen) results(to *os.File) io.Writer {
	s.joint = s.terminal && isTerminal(to)
	if !s.joint {
		return to
	}
	return &besideProgress{screen: s, to: to}
}

// besideProgress hides the line of progress before it writes.
type besideProgress struct {
	screen *screen
	to     io.Writer
}

func (w *besideProgress) Write(b []byte) (int, error) {
	s := w.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		fmt.Fprint(s.out, eraseLine)
		s.shown = false
	}
	if len(b) > 0 {
		s.within = b[len(b)-1] != '\n'
	}
	return w.to.Write(b)
}

// follow shows the text that status returns, until quit is closed.
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
	if s.within {
		return // it would erase the beginning of a result
	}
	fmt.Fprint(s.out, eraseLine+text)
	s.shown = true
}

// status returns the line of progress.
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
	if r.options.bar {
		part := 0.0
		if all && read > 0 {
			part = float64(ended+skipped) / float64(read)
		}
		text = fmt.Sprintf("%s %d/%d%s, %s/s, %d failed", bar(part), ended+skipped, read, more, figure(rate), failed)
	}
	if left := read - ended - skipped - r.notRun.Load(); all && left > 0 && rate > 0 {
		text += ", ETA " + time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second).String()
	}
	return text
}

// bar draws a progress bar for a part of 1.
func bar(part float64) string {
	const width = 30
	full := int(min(max(part, 0), 1) * width)
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", width-full), int(part*100))
}

func (r *run) rate(ended int64) float64 {
	return float64(ended) / max(time.Since(r.begun).Seconds(), 1e-9)
}

// figure formats a rate with a suitable number of digits.
func figure(rate float64) string {
	if rate >= 100 {
		return fmt.Sprintf("%.0f", rate)
	}
	return fmt.Sprintf("%.3g", rate)
}

// printable removes control characters from an untrusted text, which could otherwise
// control the terminal.
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
	if code == exitOK && failed > 0 && !(r.halted && r.options.halt.what == "success") {
		code = exitFailed
	}
	if code == exitPipe {
		return code
	}
	if cause != nil {
		r.screen.print(r.explain(code, cause))
	}
	if r.exitedWell.Load() && (cause != nil || failed > 0) {
		r.screen.print(fmt.Sprintf("bullpen: %s exits with status 0 before it has answered: --protocol lines needs a program "+
			"that answers each line with one line until its input ends; to start a process per task add "+
			"-p exec\n", r.options.command[0]))
	}
	if r.halted {
		r.screen.print(fmt.Sprintf("bullpen: stopped by --halt %s\n", r.options.halt.text))
	}
	if r.screen.progress || r.options.summary || failed > 0 || code == exitInterrupted {
		r.screen.print(r.total())
	}
	return code
}

// total returns the summary of a run.
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
