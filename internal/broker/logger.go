package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// serverLog hands the server's log lines on. It also listens to them: that is
// the only way in which the server tells that it has stopped to store.
type serverLog struct {
	log     *slog.Logger
	failure *failure

	mu       sync.Mutex
	starting bool     // guarded by mu
	fatal    error    // guarded by mu: why the server did not start
	damage   []string // guarded by mu: what it complained of while it read the store
}

// write hands one line on.
func (l *serverLog) write(level slog.Level, format string, args []any) {
	ctx := context.Background()
	urgent := level >= slog.LevelWarn
	if !urgent && !l.log.Enabled(ctx, level) {
		return
	}
	text := fmt.Sprintf(format, args...)
	l.log.Log(ctx, level, "message of the server", "text", text)
	if !urgent {
		return
	}
	l.mu.Lock()
	if l.starting && !rebuilds(text) {
		l.damage = append(l.damage, text)
	}
	l.mu.Unlock()
	if stopsStoring(text) {
		_ = l.failure.set(fmt.Errorf("the server stores nothing more: %s; look after the disk and its free space, then start the program again", text))
	}
}

// stopsStoring knows the lines by which the server says that a stream, a
// consumer or all of them take nothing more.
func stopsStoring(text string) bool {
	t := strings.ToLower(text)
	return strings.Contains(t, "critical write error") ||
		strings.Contains(t, "will be disabled") ||
		strings.Contains(t, "disabling jetstream")
}

// rebuilds knows the lines by which the server says that it reads the messages
// themselves because its index is old, as it always is after a crash.
func rebuilds(text string) bool {
	if !strings.HasPrefix(text, "Filestore [") {
		return false
	}
	for _, s := range []string{"] Stream state ", "state is outdated", "state from index errored", " took "} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// begin begins the time in which complaints are about the store as it was found.
func (l *serverLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting, l.fatal, l.damage = true, nil, nil
}

// started ends that time, and returns why the server did not start.
func (l *serverLog) started() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting = false
	return l.fatal
}

// complaints returns what the server said against the store when it read it.
func (l *serverLog) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damage
}

// Noticef hands on what is of little interest to others.
func (l *serverLog) Noticef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }

// Warnf hands on a warning.
func (l *serverLog) Warnf(format string, args ...any) { l.write(slog.LevelWarn, format, args) }

// Errorf hands on an error.
func (l *serverLog) Errorf(format string, args ...any) { l.write(slog.LevelError, format, args) }

// Fatalf hands on why the server does not start. It does not end the program.
func (l *serverLog) Fatalf(format string, args ...any) {
	l.write(slog.LevelError, format, args)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = errors.Join(l.fatal, fmt.Errorf(format, args...))
}

// Debugf drops the line; the server is not asked for such.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef drops the line; the server is not asked for such.
func (l *serverLog) Tracef(string, ...any) {}
