package process

import (
	"context"
	"log/slog"
	"time"
)

// logRate bounds what the workers' output takes in the log. It is used by the
// goroutine of logs alone.
type logRate struct {
	logger *slog.Logger
	rate   float64           // bytes a second of one worker; not above 0 for no bound
	quotas map[string]*quota // by worker
	timer  <-chan time.Time  // when is to be said what was left out; nil while nothing was
}

// quota is what one worker may still log.
type quota struct {
	left  float64
	at    time.Time // when left was so
	lines int       // left out and not said yet
	bytes int
}

const (
	// logBurst is for how many seconds of its rate a quiet worker may log at once.
	logBurst = 4
	// logWord is how often is said what was left out.
	logWord = time.Second
	// mostQuotas is when those are forgotten that are full again.
	mostQuotas = 1024
)

// allows reports whether a line of a worker is within the bound.
func (r *logRate) allows(worker string, size int, now time.Time) bool {
	if r.rate <= 0 {
		return true
	}
	q := r.quotas[worker]
	if q == nil {
		r.forget(now)
		q = &quota{left: logBurst * r.rate, at: now}
		r.quotas[worker] = q
	}
	q.fill(r.rate, now)
	if need := float64(size); need <= q.left || q.left == logBurst*r.rate { // one line may be longer
		q.left -= need
		return true
	}
	q.lines++
	q.bytes += size
	if r.timer == nil {
		r.timer = time.After(logWord)
	}
	return false
}

// fill adds what has come with time.
func (q *quota) fill(rate float64, now time.Time) {
	q.left = min(q.left+now.Sub(q.at).Seconds()*rate, logBurst*rate)
	q.at = now
}

// forget drops the quotas of workers that have been quiet, most of which have ended.
func (r *logRate) forget(now time.Time) {
	if len(r.quotas) < mostQuotas {
		return
	}
	for worker, q := range r.quotas {
		if q.fill(r.rate, now); q.lines == 0 && q.left == logBurst*r.rate {
			delete(r.quotas, worker)
		}
	}
}

// tell says what was left out.
func (r *logRate) tell() {
	r.timer = nil
	for worker, q := range r.quotas {
		if q.lines == 0 {
			continue
		}
		r.logger.LogAttrs(context.Background(), slog.LevelWarn, "output was left out: the worker prints more than it may (log_rate)",
			slog.String("worker", worker), slog.Int("lines", q.lines), slog.Int("bytes", q.bytes), slog.Int64("rate", int64(r.rate)))
		q.lines, q.bytes = 0, 0
	}
}
