package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// metrics are figures by key; the keys carry the unit.
type metrics map[string]float64

// String writes the figures in the order of their keys.
func (m metrics) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %s", key, shown(m[key])))
	}
	return strings.Join(parts, ", ")
}

const (
	payloadSize = 100
	// digits of a payload's number, which stands at its beginning.
	digits = 8
	// idleJobs are counted, after idleWarm that are not.
	idleJobs, idleWarm = 500, 50
	idlePeriod         = 20 * time.Millisecond
	// idleWait is how long the last job may take to start.
	idleWait = 20 * time.Second
)

// payload gives 100 bytes that begin with a number.
func payload(n int) []byte {
	b := slices.Repeat([]byte{'x'}, payloadSize)
	copy(b, fmt.Sprintf("%0*d", digits, n))
	return b
}

// number reads the number of a payload.
func number(payload []byte) (int, error) {
	if len(payload) != payloadSize {
		return 0, fmt.Errorf("a payload of %d bytes came back, not of %d", len(payload), payloadSize)
	}
	return strconv.Atoi(string(payload[:digits]))
}

// clock reads the machine's monotonic clock, which all its processes share.
func clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// processor is the time of the processors that this process has had.
func processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// closedLoop lets callers repeat one for span, after a warm-up of a quarter of it,
// and gives the rate and the times of what ended within span, and the processor time
// of this process for each, that of the warm-up included.
func closedLoop(ctx context.Context, callers int, span time.Duration, one func(ctx context.Context, caller int) error) (metrics, error) {
	from := clock() + int64(span/4)
	to := from + int64(span)
	times := make([][]time.Duration, callers)
	errs := make([]error, callers)
	var count atomic.Int64
	before := processor()
	var wait sync.WaitGroup
	for caller := range callers {
		// Started here, ends when span is over or at its first error; waited for below.
		wait.Go(func() {
			for begin := clock(); begin < to && errs[caller] == nil && ctx.Err() == nil; {
				errs[caller] = one(ctx, caller)
				end := clock()
				if errs[caller] == nil && end >= from && end < to {
					times[caller] = append(times[caller], time.Duration(end-begin))
				}
				count.Add(1)
				begin = end
			}
		})
	}
	wait.Wait()
	used := processor() - before
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := slices.Concat(times...)
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing ended within %v", span)
	}
	m := quantiles(all)
	m["rate"] = float64(len(all)) / span.Seconds()
	m["cpu_us"] = float64(used.Nanoseconds()) / 1000 / float64(count.Load())
	return m, nil
}

// quantiles gives what the tables show of times. It sorts them.
func quantiles(times []time.Duration) metrics {
	slices.Sort(times)
	at := func(q float64) float64 {
		return times[min(len(times)-1, int(q*float64(len(times))))].Seconds() * 1000
	}
	return metrics{"p50_ms": at(0.5), "p99_ms": at(0.99), "most_ms": at(1), "count": float64(len(times))}
}

// starts keeps when the handlers of an idle system's jobs have started.
type starts struct {
	at   [idleWarm + idleJobs]atomic.Int64
	left atomic.Int64
	all  chan struct{} // closed when all have started
	bad  atomic.Pointer[error]
}

func newStarts() *starts {
	s := &starts{all: make(chan struct{})}
	s.left.Store(int64(len(s.at)))
	return s
}

// started is site.started. A job that runs twice counts once.
func (s *starts) started(payload []byte, at int64) {
	n, err := number(payload)
	if err != nil || n < 0 || n >= len(s.at) {
		err = fmt.Errorf("a job with the number %d came, of %d: %w", n, len(s.at), err)
		s.bad.Store(&err)
		return
	}
	if s.at[n].CompareAndSwap(0, at) && s.left.Add(-1) == 0 {
		close(s.all)
	}
}

// singleJobs enqueues one job each tick and gives the times until they start.
func (s *starts) singleJobs(ctx context.Context, period time.Duration, c contender) (metrics, error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	var begun [idleWarm + idleJobs]int64
	for i := range begun {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		text := payload(i)
		begun[i] = clock()
		if err := c.enqueue(ctx, text); err != nil {
			return nil, err
		}
	}
	select {
	case <-s.all:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(idleWait):
		err := fmt.Errorf("%d of %d jobs have not started %v after the last one was enqueued", s.left.Load(), len(s.at), idleWait)
		if bad := s.bad.Load(); bad != nil {
			err = errors.Join(err, *bad)
		}
		return nil, err
	}
	var times []time.Duration
	for i := idleWarm; i < len(begun); i++ {
		times = append(times, time.Duration(s.at[i].Load()-begun[i]))
	}
	return quantiles(times), nil
}

// slots tell the callers of a closed loop that their job has been worked, for
// systems that have no call to wait for one. The number in the payload is that of
// the caller, who has one job under way.
type slots [64]chan struct{}

func newSlots() *slots {
	var s slots
	for i := range s {
		s[i] = make(chan struct{}, 1)
	}
	return &s
}

// done says that the job with that payload has been worked.
func (s *slots) done(payload []byte) error {
	n, err := number(payload)
	if err != nil {
		return err
	}
	if n >= 0 && n < len(s) {
		select {
		case s[n] <- struct{}{}:
		default: // it has run twice
		}
	}
	return nil
}

// wait returns when the job with that payload has been worked.
func (s *slots) wait(ctx context.Context, payload []byte) error {
	n, err := number(payload)
	if err != nil {
		return err
	}
	select {
	case <-s[n]:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
