package pool

import (
	"fmt"
	"math"
	"time"
)

// meter determines when a lane may start its next task. It is the virtual scheduling form
// of the generic cell rate algorithm (ITU-T Recommendation I.371, annex A; ATM Forum,
// Traffic Management 4.0, section 4.4.2): a single number, the theoretical arrival time of
// the next start, replaces a bucket of tokens and the timer that would fill it. Times are
// nanoseconds of any monotonic clock. The lock of its lane guards it.
type meter struct {
	period    int64 // between two starts at the full rate: the increment T
	tolerance int64 // how much earlier than in theory a task may start: the limit tau
	next      int64 // the theoretical arrival time, TAT
}

// yearlong bounds Burst/Rate, so that times cannot overflow.
const yearlong = 365 * 24 * time.Hour

// newMeter makes a meter for rate starts per second, with up to burst at once. The period
// is rounded up to whole nanoseconds.
func newMeter(rate float64, burst int) (meter, error) {
	if !(rate > 0) || rate > 1e9 {
		return meter{}, fmt.Errorf("Rate is %v: use a number of starts per second above 0 and up to 1e9, or 0 for none", rate)
	}
	if span := float64(burst) / rate; span > yearlong.Seconds() {
		return meter{}, fmt.Errorf("Burst/Rate is %.0f seconds: use at most a year", span)
	}
	period := int64(math.Ceil(1e9 / rate))
	return meter{period: period, tolerance: int64(burst-1) * period}, nil
}

// limited reports whether there is a rate.
func (m *meter) limited() bool { return m.period > 0 }

// wait returns how long after now the next start conforms, 0 if it does now.
func (m *meter) wait(now int64) time.Duration {
	return time.Duration(max(0, m.next-m.tolerance-now))
}

// start records a start that conforms.
func (m *meter) start(now int64) { m.next = max(m.next, now) + m.period }
