package guard

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
	firstRoom   = 4 << 10 // what a body takes of the budget at first
	mostRoom    = 1 << 20 // and at most at a time
	streamRoom  = 4 << 20 // and altogether, where it is worked off as it comes
	streamShare = 16      // one part of how many of all room that is at most
	leastRate   = 1 << 10 // bytes a second
	tightRate   = 64 << 10
	rollShare   = 10 // a deadline is set again when one part in so many of its time has gone by
)

// body reads a body within its bounds: size, room among all bodies, pauses and
// rate. Handlers see an error where one is broken, and the guard answers.
type body struct {
	src       io.ReadCloser
	owner     *exchange
	announced int64 // the Content-Length, -1 where it is not known
	most      int64 // the largest size
	streams   bool

	ended atomic.Bool  // it was read to its end, or has failed
	until atomic.Int64 // the deadline in force, in Unix nanoseconds; 0 for none
	// stopped says that nothing more is to be read.
	stopped atomic.Bool

	// These are the reader's own.
	err    error
	read   int64
	asked  int64         // what was taken of the budget
	span   time.Duration // the time spent on reading since the rate was looked at
	inSpan int64         // what came in it

	hold hold
}

// Read reads on, for as long as the bounds are kept.
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
	if b.stopped.Load() { // seen here, or the deadline of Interrupt is behind ours
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
	case b.read > b.most: // also where the end comes with the last byte
		return 0, b.fail(b.large())
	case errors.Is(err, io.EOF):
		b.finish()
	case err != nil:
		return n, b.fail(err)
	}
	return n, err
}

// room shortens p to what the budget has for it. It takes twice as much each
// time, so that a small body asks once and a large one seldom.
func (b *body) room(p []byte) ([]byte, error) {
	budget := b.owner.guard.room
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
		p = p[:max(left, 1)] // one, to be told of the end, or that there is more
	}
	return p, nil
}

// Grow takes room among all bodies for size bytes of the body of r, which its reader is
// about to make room for in memory. When there is none in time, reading fails as well.
func Grow(r *http.Request, size int64) error {
	b, ok := r.Body.(*body)
	if !ok || size <= b.asked {
		return nil
	}
	if b.err != nil {
		return b.err
	}
	if err := b.owner.guard.room.take(r.Context(), &b.hold, size-b.asked); err != nil {
		return b.fail(err)
	}
	b.asked = size
	b.owner.guard.room.litter.add(b.read)
	return nil
}

// roll sets the deadline of the next read.
func (b *body) roll(now time.Time) {
	pause := b.owner.guard.times.Body
	until := now.Add(pause)
	if d := until.UnixNano() - b.until.Load(); d >= 0 && d < int64(pause/rollShare) {
		return
	}
	b.until.Store(until.UnixNano())
	http.NewResponseController(b.owner.ResponseWriter).SetReadDeadline(until) //nolint:errcheck // a server without deadlines has no slow clients
}

// pace looks at the rate. Only the time in which we wait for the client counts.
func (b *body) pace(n int, took time.Duration) error {
	b.span += took
	b.inSpan += int64(n)
	if b.span < b.owner.guard.times.Body {
		return nil
	}
	least := float64(leastRate)
	if b.owner.guard.room.waits.Load() > 0 {
		least = tightRate
	}
	rate := float64(b.inSpan) / b.span.Seconds()
	b.span, b.inSpan = 0, 0
	if rate < least {
		return b.slow()
	}
	return nil
}

// finish is called when all of the body is here.
func (b *body) finish() {
	b.err = io.EOF
	b.ended.Store(true)
	g := b.owner.guard
	if spare := b.asked - b.read; spare > 0 {
		g.room.give(&b.hold, spare, false)
	}
	// HTTP/1 takes the deadline back by itself.
	if b.owner.request.ProtoMajor >= 2 && b.until.Load() != 0 {
		http.NewResponseController(b.owner.ResponseWriter).SetReadDeadline(time.Time{}) //nolint:errcheck // as in roll
	}
}

// fail ends the body, and tells the owner why.
func (b *body) fail(err error) error {
	b.err = err
	var p *problem.Problem
	var tooLarge *http.MaxBytesError
	var slow *slowError
	switch {
	case errors.As(err, &tooLarge):
		p = largeProblem(tooLarge.Limit)
	case errors.As(err, &slow):
		p = problem.New(problem.BadRequest, fmt.Sprintf("the body came too slowly: at least %d bytes a second must arrive, and no pause may be longer than %v; send it again", leastRate, b.owner.guard.times.Body))
	case errors.Is(err, errNoRoom):
		p = problem.New(problem.Rate, "the bodies of other requests take all the room (http.max_inflight): try again later, or send fewer at a time")
	default:
		return err
	}
	b.owner.broken.Store(p)
	return err
}

// slowError says that a client does not send.
type slowError struct{}

func (*slowError) Error() string { return "the body comes too slowly" }

// Unwrap makes it a timeout for those who ask.
func (*slowError) Unwrap() error { return os.ErrDeadlineExceeded }

func (b *body) slow() error { return &slowError{} }

func (b *body) large() error { return &http.MaxBytesError{Limit: b.most} }

func largeProblem(limit int64) *problem.Problem {
	return problem.New(problem.TooLarge, fmt.Sprintf("the body is larger than %d bytes (http.max_body): send less, or hand over where it lies", limit))
}

// Release gives back the room that the body of r holds, before its handler
// returns: for one that has handed the payload over and waits for something else.
// The body must have been read to its end.
func Release(r *http.Request) {
	if b, ok := r.Body.(*body); ok && b.ended.Load() {
		b.owner.guard.room.give(&b.hold, 0, true)
	}
}

var errInterrupted = errors.New("the body is read no more")

// Interrupt makes reading the body of r fail from now on, a read that waits too. It
// may be called from another goroutine than the reader's.
func Interrupt(w http.ResponseWriter, r *http.Request) {
	if b, ok := r.Body.(*body); ok {
		b.stopped.Store(true)
	}
	http.NewResponseController(w).SetReadDeadline(time.Now()) //nolint:errcheck // a server without deadlines does not wait either
}

// Close closes the body.
func (b *body) Close() error { return b.src.Close() }
