package poolhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
)

// Defaults of a Config.
const (
	DefaultRetryAfter = time.Second
	DefaultBuffer     = 1 << 20
)

// Config says how requests are put behind a target.
type Config struct {
	// Target is where they run: a lane, a place in one, or a whole pool. Its
	// overflow rule must be pool.Reject or pool.DropOldest.
	Target pool.Target
	// Wait is how long a request may wait for its start; 0 means until its client
	// gives up.
	Wait time.Duration
	// RetryAfter is what a refused client is told, in seconds, rounded up; 0 means
	// DefaultRetryAfter, and negative leaves the header out.
	RetryAfter time.Duration
	// Buffer is up to how many bytes of an answer are collected before it is
	// streamed; 0 means DefaultBuffer, and negative none.
	Buffer int
	// Answer writes the answer to a request that its handler did not answer. The
	// header Retry-After is set where it belongs; err says what happened, and is
	// not meant for clients. nil means the text of the status.
	Answer func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// Handler puts h behind a target with the defaults of a Config. An error says what
// is wrong with the arguments.
func Handler(on pool.Target, h http.Handler) (http.Handler, error) {
	return Config{Target: on}.Handler(h)
}

// Handler puts h behind c.Target. What it returns is safe for concurrent use if h
// is. An error names all faults of c. A request costs about four microseconds and
// one and a half kilobytes more than without.
func (c Config) Handler(h http.Handler) (http.Handler, error) {
	if err := c.check(h); err != nil {
		return nil, fmt.Errorf("poolhttp: %w", err)
	}
	b := &bulkhead{Config: c, next: h}
	if b.RetryAfter == 0 {
		b.RetryAfter = DefaultRetryAfter
	}
	switch {
	case b.Buffer == 0:
		b.Buffer = DefaultBuffer
	case b.Buffer < 0:
		b.Buffer = 0
	}
	if b.Answer == nil {
		b.Answer = func(w http.ResponseWriter, _ *http.Request, status int, _ error) {
			http.Error(w, http.StatusText(status), status)
		}
	}
	b.task = pool.NewFunc(c.Target, b.run)
	return b, nil
}

// check reports all faults of c at once.
func (c Config) check(h http.Handler) error {
	var errs []error
	if h == nil {
		errs = append(errs, errors.New("the handler is nil"))
	}
	if c.Wait < 0 {
		errs = append(errs, fmt.Errorf("Wait is %v: use a positive duration, or 0 to wait until the client gives up", c.Wait))
	}
	if c.hasTarget() {
		if o := pool.OverflowOf(c.Target); o != pool.Reject && o != pool.DropOldest {
			errs = append(errs, fmt.Errorf("the overflow rule of Target is %q: use pool.Reject, or pool.DropOldest", o))
		}
	} else {
		errs = append(errs, errors.New("Target is nil: use a lane of a pool"))
	}
	return errors.Join(errs...)
}

func (c Config) hasTarget() bool {
	switch on := c.Target.(type) {
	case *pool.Pool:
		return on != nil
	case *pool.Lane:
		return on != nil
	case pool.Place:
		return on != pool.Place{}
	default:
		return on != nil
	}
}

// bulkhead is the handler that runs another one in a pool.
type bulkhead struct {
	Config
	next http.Handler
	task *pool.Func[*exchange, struct{}]
}

// exchange is one request with its answer.
type exchange struct {
	request *http.Request
	answer  *answer
	state   atomic.Uint32 // waits, then started or refused
	aborted atomic.Bool   // the handler panicked with http.ErrAbortHandler
}

// The states of an exchange.
const (
	waits = iota
	started
	refused // it has waited too long, and is not started any more
)

// errWaited is why a request ends that has waited too long.
var errWaited = errors.New("the request waited longer than it may")

// run is the task. It is the pool's worker that calls it.
func (b *bulkhead) run(ctx context.Context, x *exchange) (struct{}, error) {
	if !x.state.CompareAndSwap(waits, started) {
		return struct{}{}, nil
	}
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			x.aborted.Store(true) // it is no fault, so that the pool need not report it
		default:
			panic(v) // the stack is still that of the handler
		}
	}()
	b.next.ServeHTTP(x.answer, x.request.WithContext(ctx))
	return struct{}{}, nil
}

// ServeHTTP runs the request as a task and waits for its end.
func (b *bulkhead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{request: r, answer: newAnswer(w, b.Buffer)}
	future, err := b.task.Submit(r.Context(), x)
	if err == nil {
		b.await(future, x)
		_, err = future.Wait(context.Background()) //nolint:contextcheck // it has ended: nothing waits here
	}
	if err == nil && x.state.Load() == refused {
		err = errWaited
	}
	if err == nil && !x.aborted.Load() {
		x.answer.finish()
		return
	}
	if sent := x.answer.shut(); sent || x.aborted.Load() {
		panic(http.ErrAbortHandler) // the server closes the connection, so that the client sees the answer is not whole
	}
	b.fail(w, r, err)
}

// await waits for the end of the task, which comes at the latest with its timeout
// or a grace after its client has gone. A request that is not started in time is
// taken back.
func (b *bulkhead) await(future pool.Future[struct{}], x *exchange) {
	ended := future.Done()
	if b.Wait > 0 {
		timer := time.NewTimer(b.Wait)
		defer timer.Stop()
		select {
		case <-ended:
			return
		case <-timer.C:
		}
		if x.state.CompareAndSwap(waits, refused) {
			future.Cancel(errWaited)
		}
	}
	<-ended
}

// fail answers a request that its handler did not answer.
func (b *bulkhead) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	outcome, begun := bullpen.OutcomeOf(err)
	switch {
	case !begun:
		if b.RetryAfter > 0 {
			seconds := (b.RetryAfter + time.Second - 1) / time.Second
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		}
	case outcome == bullpen.Timeout:
		status = http.StatusGatewayTimeout
	case outcome != bullpen.Canceled:
		status = http.StatusInternalServerError
	}
	b.Answer(w, r, status, err)
}
