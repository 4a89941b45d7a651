package process

import (
	"context"
	"log/slog"
	"time"
)

// logRate limits the workers' output in the log. Only the goroutine of logs uses it.
type logRate struct {
	logger *slog.Logger
	rate   float64           // bytes per second of one worker; 0 or less for no bound
	quotas map[string]*quota // by worker
	timer  <-chan time.Time  // when to log what was dropped; nil if nothing was
}

// quota is what one worker may still log, a token bucket.
type quota struct {
	left  float64
	at    time.Time // when left was updated
	lines int       // dropped and not yet reported
	bytes int
}

const (
	// logBurst is how many seconds' worth of its rate a quiet worker may log at once.
	logBurst = 4
	// logWord is the interval at which dropped output is reported.
	logWord = time.Second
	// mostQuotas is the number of quotas above which full ones are deleted.
	mostQuotas = 1024
)

// allows reports whether a line of a worker is within the rate.
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
	if need := float64(size); need <= q.left || q.left == logBurst*r.rate { // a full quota allows any line
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

// fill adds the bytes earned since the last update.
func (q *quota) fill(rate float64, now time.Time) {
	q.left = min(q.left+now.Sub(q.at).Seconds()*rate, logBurst*rate)
	q.at = now
}

// forget deletes the quotas of workers that have been quiet, most of which have ended.
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

// tell logs what was dropped.
func (r *logRate) tell() {
	r.timer = nil
	for worker, q := range r.quotas {
		if q.lines == 0 {
			continue
		}
		r.logger.LogAttrs(context.Background(), slog.LevelWarn, "output was dropped: the worker prints more than log_rate allows",
			slog.String("worker", worker), slog.Int("lines", q.lines), slog.Int("bytes", q.bytes), slog.Int64("rate", int64(r.rate)))
		q.lines, q.bytes = 0, 0
	}
}
