package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// HTTPWorker configures workers that are web servers. A worker listens on the port in the
// variable PORT, on all addresses or on the loopback interface, and is ready as soon as it
// accepts a connection. Each task is a POST. Its response decides the outcome:
//
//	2xx         ok; the body is the result
//	429, 503    the task was not started; it waits for a worker again, this one gets no
//	            task for as long as its Retry-After asks, or for 100 ms
//	other 4xx   failed, and not retried
//	all others  failed
//
// A task comes with the headers Bullpen-Task-Id, Bullpen-Task-Name, Bullpen-Deadline-Ms
// (Unix time) and, for each entry K of its Meta, Bullpen-Meta-K; content-type, traceparent,
// tracestate and the attributes of a CloudEvent (ce-*) keep their own names. Content-Type
// and ce-* of a response become [bullpen.Result].Meta.
type HTTPWorker struct {
	// Path is the path of tasks; {name} in it is replaced by the task's name. Empty means
	// "/".
	Path string
	// Ready is a path that answers 2xx as soon as the worker is ready. Empty means that it
	// is ready when it accepts a connection.
	Ready string
}

func (h HTTPWorker) check() error {
	var errs []error
	for name, path := range map[string]string{"Path": h.Path, "Ready": h.Ready} {
		if path == "" {
			continue
		}
		if u, err := url.ParseRequestURI(path); err != nil || !strings.HasPrefix(path, "/") || u.Host != "" {
			errs = append(errs, fmt.Errorf("HTTP.%s is %q: use a path that begins with /", name, path))
		}
	}
	return errors.Join(errs...)
}

const (
	// keepConnection is how long an idle connection to a worker is kept. Servers close
	// theirs after two seconds or more, and a task sent at that moment would be lost.
	keepConnection = time.Second
	// probeFirst and probeLast are the pauses between probes of a worker that starts: a
	// port has no event that shows that a process listens.
	probeFirst = time.Millisecond
	probeLast  = 50 * time.Millisecond
	// defaultRetryAfter is how long a worker gets no task that has refused one without
	// saying for how long; mostRetryAfter bounds what it may say.
	defaultRetryAfter = 100 * time.Millisecond
	mostRetryAfter    = time.Hour
	// shortRequest is the largest body that every server reads together with its headers.
	shortRequest = 2 << 10
)

// httpDriver drives a worker that is a web server.
type httpDriver struct {
	direct

	port    int
	address string // that answers; set before the worker is ready
	client  *http.Client
	life    context.Context //nolint:containedctx // of the process, which ends it
	end     context.CancelFunc
	posts   context.Context //nolint:containedctx // of the requests, which end soon after the process
	abandon context.CancelFunc
	tasks   sync.WaitGroup // requests in progress

	// Pool.mu guards the fields below.
	requests map[uint32]context.CancelCauseFunc // tasks in progress, by number
	resumeAt int64                              // when the pause ends
	over     bool                               // the process has ended
}

func driveHTTP(w *worker) driver {
	d := &httpDriver{direct: direct{base: base{w}}, requests: map[uint32]context.CancelCauseFunc{}}
	d.life, d.end = context.WithCancel(context.Background())
	d.posts, d.abandon = context.WithCancel(context.Background())
	return d
}

func (d *httpDriver) open(spec *confine.Spec, made *pipes) (err error) {
	if err := d.openNetwork(spec); err != nil {
		return err
	}
	if d.private != nil {
		d.port = privatePort
	} else if d.port, err = ports.take(); err != nil {
		return err
	}
	if err := made.open(&made.stdout, &made.stderr); err != nil {
		return err
	}
	spec.Files = []*os.File{nil, made.stdout.child, made.stderr.child}
	spec.Env = with(spec.Env, "PORT="+strconv.Itoa(d.port))
	if !d.w.pool.config.names("PYTHONUNBUFFERED") {
		spec.Env = append(spec.Env, "PYTHONUNBUFFERED=1")
	}
	n := d.w.pool.config.Concurrency
	d.client = &http.Client{
		Transport: &http.Transport{
			DialContext: d.dial, DisableCompression: true, MaxIdleConnsPerHost: n, IdleConnTimeout: keepConnection,
			MaxResponseHeaderBytes: 1 << 20,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// dial connects to the worker.
func (d *httpDriver) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	dial := d.private.Dial
	if d.private == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	conn, err := dial(ctx, d.address)
	if err != nil {
		return nil, err
	}
	return &webConn{Conn: conn}, nil
}

// converse waits until the server answers, and then until the process has ended.
func (d *httpDriver) converse() {
	if err := d.probe(); err == nil {
		w, p := d.w, d.w.pool
		p.mu.Lock()
		w.concurrency = p.config.Concurrency
		p.mu.Unlock()
		w.ready()
	} else if d.life.Err() == nil {
		d.w.pool.hungUp(d.w, err)
	}
	<-d.life.Done()
	d.w.pool.mu.Lock()
	d.over = true // no more posts
	d.w.pool.mu.Unlock()
	// The kernel has closed the connections, unless a process that has detached itself
	// keeps them.
	timer := time.AfterFunc(d.w.pool.config.Grace, d.abandon)
	defer timer.Stop()
	d.tasks.Wait()
}

// probe waits until the worker is ready or has ended.
func (d *httpDriver) probe() error {
	pause := probeFirst
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-d.life.Done():
			return context.Cause(d.life)
		}
		if d.listens() {
			// In the network of the host, another user's server may have taken the port.
			if err := wire.CheckListener(d.port); err != nil && d.private == nil {
				return fmt.Errorf("port %d: %w", d.port, err)
			}
			if d.answersReady() {
				return nil
			}
		}
		timer.Reset(pause)
		pause = min(2*pause, probeLast)
	}
}

// listens reports whether a server accepts connections at the port, and notes its address.
func (d *httpDriver) listens() bool {
	for _, host := range []string{"127.0.0.1", "::1"} {
		d.address = net.JoinHostPort(host, strconv.Itoa(d.port))
		if conn, err := d.dial(d.life, "", ""); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

// answersReady reports whether the path for readiness, if there is one, answers 2xx.
func (d *httpDriver) answersReady() bool {
	path := d.w.pool.config.HTTP.Ready
	if path == "" {
		return true
	}
	r, err := http.NewRequestWithContext(d.life, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return false
	}
	response, err := d.client.Do(r)
	if err != nil {
		return false
	}
	_, _ = io.CopyN(io.Discard, response.Body, mostErrorText)
	_ = response.Body.Close()
	return response.StatusCode/100 == 2
}

func (d *httpDriver) ended() { d.end() }

// close gives the port back.
func (d *httpDriver) close() {
	d.end()
	d.abandon()
	if d.client != nil {
		d.client.CloseIdleConnections()
	}
	if d.private == nil {
		ports.giveBack(d.port)
	}
	d.direct.close()
}

// send posts each pending task on a goroutine of its own.
func (d *httpDriver) send() {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	if !w.broken && !d.over {
		for _, c := range w.pending {
			ctx, cancel := context.WithCancelCause(d.posts)
			d.requests[c.number] = cancel
			w.sentTo.Store(c.number)
			d.tasks.Go(func() { d.post(ctx, c) }) // ends with the response, or with the process
		}
		clear(w.pending)
		w.pending = w.pending[:0]
	}
	p.release(w)
}

// cancel closes the request, if the worker has others to go on with. Nothing shows that the
// worker has stopped, so it is replaced.
func (d *httpDriver) cancel(c *call) bool {
	w := d.w
	if w.count == 1 {
		return false
	}
	w.pool.flag(w, causeOf(c))
	if end := d.requests[c.number]; end != nil { // else its answer is on the way
		end(c.cause)
	}
	return true
}

// pause keeps tasks from the worker for a time.
func (d *httpDriver) pause(after time.Duration) {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w.paused = true
	d.resumeAt = max(d.resumeAt, p.now()+int64(after))
	p.wakeBy(d.resumeAt)
}

// tend ends the pause of a worker.
func (d *httpDriver) tend(now int64) {
	w, p := d.w, d.w.pool
	switch {
	case !w.paused:
	case now < d.resumeAt:
		p.wakeBy(d.resumeAt)
	default:
		w.paused, d.resumeAt = false, 0
		p.serve(w, now)
		p.madeRoom()
	}
}

// post posts a task and answers it.
func (d *httpDriver) post(ctx context.Context, c *call) {
	began := time.Now()
	r, err := d.request(ctx, c)
	if err != nil {
		m := failed(bullpen.Failed, failure{Message: err.Error()}, 0, 0)
		m.Flags = protocol.Final
		d.done(c, m, 0)
		return
	}
	response, err := d.client.Do(r)
	var m *wire.Message
	if err != nil {
		m = d.broken(ctx, err, func() { d.noteUnread(c, err) })
	} else if m, err = d.read(c, response, began); err != nil {
		m = d.broken(ctx, err, func() {}) // it has begun to answer
	}
	d.done(c, m, time.Since(began))
}

// done ends the request for c, and passes its answer on. Nil means that the end of the
// process decides.
func (d *httpDriver) done(c *call, m *wire.Message, ran time.Duration) {
	p, number := d.w.pool, c.number
	p.mu.Lock()
	d.requests[number](nil)
	delete(d.requests, number)
	p.mu.Unlock()
	if m != nil {
		d.answer(number, m, ran)
	}
}

// broken returns the answer for a request without a whole response: the pool has ended it, the
// worker never got it, or the worker has closed the connection. In that case the worker has
// some time to end, which says more: died is called then. One that was killed will end.
func (d *httpDriver) broken(ctx context.Context, err error, died func()) *wire.Message {
	if cause := context.Cause(ctx); cause != nil && d.posts.Err() == nil {
		return failed(reason(cause), failure{Message: cause.Error()}, 0, 0)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		d.pause(defaultRetryAfter)
		d.w.pool.hungUp(d.w, nil) // it does not listen any more
		return &wire.Message{Kind: protocol.Returned}
	}
	timer := time.NewTimer(d.w.pool.config.Grace)
	defer timer.Stop()
	select {
	case <-d.life.Done():
	case <-timer.C:
		if !d.w.isKilled() {
			return failed(bullpen.Protocol, failure{Message: "the worker has not answered: " + err.Error()}, 0, 0)
		}
		<-d.life.Done()
	}
	died()
	return nil
}

// noteUnread notes a task of a worker that has died if the worker had not read it: then the
// kernel has reset the connection, see RFC 2525 section 2.17. A server reads a short request
// at once; of a long one it may have read a part, and begun.
func (d *httpDriver) noteUnread(c *call, err error) {
	if len(c.task.Payload) > shortRequest || !errors.Is(err, errUnread) {
		return
	}
	p := d.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	d.unread = append(d.unread, c.number)
}
