package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/bullpen-run/bullpen/internal/feed"
	"github.com/bullpen-run/bullpen/job"
)

// journal sends events to subscribers and the logger. It may be used with any lock held.
type journal struct {
	source feed.Source[job.Event]
	log    *feed.Log[job.Event] // nil for none
}

// open starts the logger, if any. It is called once.
func (j *journal) open(logger *slog.Logger) {
	if logger != nil {
		j.log = j.source.Log(func(e job.Event) { log(logger, e) })
	}
}

// Emit sends an event to all subscribers and the logger. It never blocks: one that is not
// ready misses the event.
func (j *journal) Emit(e job.Event) {
	if j.source.Heard() {
		e.Time = time.Now()
		j.source.Send(e)
	}
}

// Lost returns how many events were not logged, because the logger was too slow or panicked.
func (j *journal) Lost() uint64 { return j.log.Lost() }

// close ends all subscriptions, and waits until the logger has written what it has.
func (j *journal) close() {
	j.source.Close()
	j.log.Wait()
}

// Events implements queue.Queue.Events.
func (q *Jobs) Events(buffer int) *feed.Feed[job.Event] { return q.Journal.source.Feed(buffer) }

// log writes an event.
func log(logger *slog.Logger, e job.Event) {
	attrs := make([]slog.Attr, 0, 7)
	for _, a := range []struct{ key, value string }{{"queue", e.Queue}, {"task", e.Task}, {"job", e.Job}, {"schedule", e.Schedule}, {"batch", e.Batch}, {"text", e.Text}} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if e.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", e.Attempt))
	}
	if e.Count != 0 {
		attrs = append(attrs, slog.Int("count", e.Count))
	}
	logger.LogAttrs(context.Background(), levelOf(e.Kind), "queue: "+e.Kind.String(), attrs...) //nolint:sloglint // the kinds are constant
}

// levelOf returns the log level of an event.
func levelOf(k job.EventKind) slog.Level {
	switch k {
	case job.Damaged, job.Missing, job.StoreFailed:
		return slog.LevelError
	case job.Buried, job.Unreadable, job.Full, job.NotKept, job.HeldOff, job.Redelivered, job.TickSkipped, job.TicksMissed, job.ScheduleFailed:
		return slog.LevelWarn
	case job.ScheduleFired, job.BatchProgress:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}
