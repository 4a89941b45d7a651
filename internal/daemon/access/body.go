package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

const (
	firstRoom   = 4 << 10 // a body's first share of the budget
	mostRoom    = 1 << 20 // its largest increment
	streamRoom  = 4 << 20 // and its maximum, if it is processed as it arrives
	streamShare = 16      // that maximum is at most this fraction of the budget
	leastRate   = 1 << 10 // bytes a second
	tightRate   = 64 << 10
	rollShare   = 10 // a deadline is renewed once this fraction of its time has passed
)

// body reads a request body within its bounds: size, share of the budget, pauses and
// rate. If one is exceeded the handler gets an error, and Control answers the
// request.
type body struct {
	src       io.ReadCloser
	owner     *exchange
	announced int64 // the Content-Length; -1 if not known
	most      int64 // maximum size
	streams   bool

	ended atomic.Bool  // it was read completely, or has failed
	until atomic.Int64 // the deadline in force, in Unix nanoseconds; 0 for none
	// stopped reports that reading must end.
	stopped atomic.Bool

	// Used only by the reader.
	err    error
	read   int64
	asked  int64         // bytes taken from the budget
	span   time.Duration // time spent reading since the last check of the rate
	inSpan int64         // bytes read in that time

	hold hold
}

// Read reads while the bounds are kept.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	p, err := b.room(p)
	if err != nil {
		return 0, b.fail(err)
	}
	before := time.Now()
	b.roll(before)
	if b.stopped.Load() { // check here too, because the deadline of Interrupt may be after ours
		return 0, b.fail(errInterrupted)
	}
	n, err := b.src.Read(p)
	b.read += int64(n)
	if err == nil {
		err = b.pace(n, time.Since(before))
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = b.slow()
	}
	switch {
	case b.read > b.most: // check even if the end arrives with the last byte
		return 0, b.fail(b.large())
	case errors.Is(err, io.EOF):
		b.finish()
	case err != nil:
		return n, b.fail(err)
	}
	return n, err
}

// room shortens p to what the budget allows. It doubles its request each time, so
// that a small body asks once and a large one rarely.
func (b *body) room(p []byte) ([]byte, error) {
	budget := b.owner.control.room
	limit := b.most
	if b.streams {
		if limit = min(streamRoom, budget.size/streamShare); b.asked >= limit {
			return p, nil
		}
	}
	if b.read >= b.asked {
		more := min(max(b.asked, firstRoom), mostRoom, limit-b.asked)
		if b.announced >= 0 {
			more = min(more, b.announced-b.read)
		}
		if more > 0 {
			if err := budget.take(b.owner.request.Context(), &b.hold, more); err != nil {
				return nil, err
			}
			b.asked += more
		}
	}
	if left := b.asked - b.read; int64(len(p)) > left {
		p = p[:max(left, 1)] // at least one byte, to detect the end or too much data
	}
	return p, nil
}

// Grow takes size bytes of the budget for the body of r, for memory that its reader
// is about to allocate. If the budget has no room in time, reading fails too.
func Grow(r *http.Request, size int64) error {
	b, ok := r.Body.(*body)
	if !ok || size <= b.asked {
		return nil
	}
	if b.err != nil {
		return b.err
	}
	if err := b.owner.control.room.take(r.Context(), &b.hold, size-b.asked); err != nil {
		return b.fail(err)
	}
	b.asked = size
	b.owner.control.room.litter.add(b.read)
	return nil
}

// roll sets the deadline of the next read.
func (b *body) roll(now time.Time) {
	pause := b.owner.control.times.Body
	until := now.Add(pause)
	if d := until.UnixNano() - b.until.Load(); d >= 0 && d < int64(pause/rollShare) {
		return
	}
	b.until.Store(until.UnixNano())
	http.NewResponseController(b.owner.ResponseWriter).SetReadDeadline(until) //nolint:errcheck // a server without deadlines has no slow clients
}

// pace checks the rate. Only time spent waiting for the client counts.
func (b *body) pace(n int, took time.Duration) error {
	b.span += took
	b.inSpan += int64(n)
	if b.span < b.owner.control.times.Body {
		return nil
	}
	least := float64(leastRate)
	if b.owner.control.room.waits.Load() > 0 {
		least = tightRate
	}
	rate := float64(b.inSpan) / b.span.Seconds()
	b.span, b.inSpan = 0, 0
	if rate < least {
		return b.slow()
	}
	return nil
}

// finish is called when the whole body was read.
func (b *body) finish() {
	b.err = io.EOF
	b.ended.Store(true)
	g := b.owner.control
	if spare := b.asked - b.read; spare > 0 {
		g.room.give(&b.hold, spare, false)
	}
	// HTTP/1 removes the deadline itself.
	if b.owner.request.ProtoMajor >= 2 && b.until.Load() != 0 {
		http.NewResponseController(b.owner.ResponseWriter).SetReadDeadline(time.Time{}) //nolint:errcheck // as in roll
	}
}

// fail ends the body, and records the reason for the exchange.
func (b *body) fail(err error) error {
	b.err = err
	var p *problem.Problem
	var tooLarge *http.MaxBytesError
	var slow *slowError
	switch {
	case errors.As(err, &tooLarge):
		p = largeProblem(tooLarge.Limit)
	case errors.As(err, &slow):
		p = problem.New(problem.BadRequest, fmt.Sprintf("the body came too slowly: send at least %d bytes per second, with no pause longer than %v", leastRate, b.owner.control.times.Body))
	case errors.Is(err, errNoRoom):
		p = problem.New(problem.Rate, "the bodies of other requests use all the memory of http.max_inflight: try again later, or send fewer at a time")
	default:
		return err
	}
	b.owner.broken.Store(p)
	return err
}

// slowError is the error of a client that sends too slowly.
type slowError struct{}

func (*slowError) Error() string { return "the body comes too slowly" }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (*slowError) Unwrap() error { return os.ErrDeadlineExceeded }

func (b *body) slow() error { return &slowError{} }

func (b *body) large() error { return &http.MaxBytesError{Limit: b.most} }

func largeProblem(limit int64) *problem.Problem {
	return problem.New(problem.TooLarge, fmt.Sprintf("the body is larger than %d bytes (http.max_body): send less, or send a path or URL of the data instead", limit))
}

// Release returns the body's share of the budget before the handler returns. It is
// for a handler that has passed the payload on and waits for something else. The body
// must have been read to its end.
func Release(r *http.Request) {
	if b, ok := r.Body.(*body); ok && b.ended.Load() {
		b.owner.control.room.give(&b.hold, 0, true)
	}
}

var errInterrupted = errors.New("the body is no longer read")

// Interrupt makes reads of the body of r fail from now on, including one in progress.
// It may be called from any goroutine.
func Interrupt(w http.ResponseWriter, r *http.Request) {
	if b, ok := r.Body.(*body); ok {
		b.stopped.Store(true)
	}
	http.NewResponseController(w).SetReadDeadline(time.Now()) //nolint:errcheck // a server without deadlines does not wait either
}

// Close closes the body.
func (b *body) Close() error { return b.src.Close() }
