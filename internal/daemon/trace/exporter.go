package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Counts are the numbers of spans by result.
type Counts struct {
	// Sent spans were accepted by the collector. Dropped ones were not: the buffer
	// was full, or the collector refused them or did not answer for too long.
	Sent, Dropped uint64
	// Failures is the number of failed requests.
	Failures uint64
	// Waiting is the number of spans in the buffer.
	Waiting int
}

// exporter sends spans. newExporter starts its goroutine; close ends it and waits for
// it.
type exporter struct {
	config  Config
	client  *http.Client
	encoder encoder

	sent, dropped, failures atomic.Uint64

	wake chan struct{}   // capacity 1: signals that a batch is full, or that closed was set
	live context.Context //nolint:containedctx // of requests; ended by the end of close
	kill context.CancelFunc
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	waiting []span // guarded by mu
	closed  bool   // guarded by mu
}

func newExporter(c Config) *exporter {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: c.Traces.Timeout, ForceAttemptHTTP2: true,
	}
	e := &exporter{
		config: c, encoder: encoder{resource: c.resource(), version: c.Version},
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		wake:   make(chan struct{}, 1), done: make(chan struct{}),
	}
	e.live, e.kill = context.WithCancel(context.Background())
	go e.run() // ends after close
	return e
}

// put adds spans to the buffer, or drops them.
func (e *exporter) put(spans ...span) {
	e.mu.Lock()
	room := min(e.config.Buffer-len(e.waiting), len(spans))
	if e.closed {
		room = 0
	}
	before := len(e.waiting)
	e.waiting = append(e.waiting, spans[:room]...)
	whole := before < batchSize && len(e.waiting) >= batchSize
	e.mu.Unlock()
	if room < len(spans) {
		e.dropped.Add(uint64(len(spans) - room))
	}
	if whole {
		e.nudge()
	}
}

func (e *exporter) nudge() {
	select {
	case e.wake <- struct{}{}:
	default: // already signaled
	}
}

// take returns all waiting spans, and reuses the memory of spent for new ones.
func (e *exporter) take(spent []span) (all []span, closed bool) {
	clear(spent)
	e.mu.Lock()
	defer e.mu.Unlock()
	all, e.waiting = e.waiting, spent[:0]
	return all, e.closed
}

// run sends batches until all are sent after close.
func (e *exporter) run() {
	defer close(e.done)
	defer e.client.CloseIdleConnections()
	look := time.NewTicker(e.config.Pause)
	defer look.Stop()
	var all []span
	for {
		var closed bool
		all, closed = e.take(all)
		for batch := range slices.Chunk(all, batchSize) {
			e.send(batch)
		}
		if len(all) >= batchSize {
			continue
		}
		if closed {
			return
		}
		select {
		case <-e.wake:
		case <-look.C:
		}
	}
}

const (
	// patience is how long sending a batch is retried; meanwhile the buffer fills.
	patience   = 30 * time.Second
	firstPause = 500 * time.Millisecond
	lastPause  = 8 * time.Second
	// quiet is the time between two log messages about a failing collector.
	quiet = time.Minute
)

// send sends a batch, and retries if that may help.
func (e *exporter) send(batch []span) {
	n := 0
	for i := range batch {
		n += e.encode(&batch[i])
	}
	body := e.encoder.take()
	begun := time.Now()
	var warned time.Time
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		refused, err := e.post(body)
		if err == nil {
			e.sent.Add(uint64(max(n-refused, 0)))
			e.dropped.Add(uint64(min(refused, n)))
			if !warned.IsZero() {
				e.config.Logger.Info("sending traces works again")
			}
			return
		}
		e.failures.Add(1)
		again := refusal(err)
		if time.Since(warned) >= quiet {
			warned = time.Now()
			e.config.Logger.Warn("traces cannot be sent; when the buffer is full they are dropped", slog.Any("error", err), slog.Uint64("dropped", e.dropped.Load()))
		}
		pause := max(pause, again.after)
		if again.final || e.live.Err() != nil || time.Since(begun)+pause > patience || !e.rest(pause) {
			e.dropped.Add(uint64(n))
			return
		}
	}
}

// encode encodes a span and, for a run, the start of its worker. It returns the
// number of spans.
func (e *exporter) encode(s *span) int {
	n := 1
	if s.starts != nil {
		if began := s.starts.of(s); began != nil {
			e.encoder.add(began)
			n++
		}
	}
	e.encoder.add(s)
	return n
}

// rest waits; it returns false if there is no time for another try.
func (e *exporter) rest(pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.live.Done():
		return false
	}
}

// refused is an answer other than success.
type refused struct {
	status int
	text   string
	after  time.Duration // delay that the collector asks for
	final  bool          // a retry would be refused too
}

func (r *refused) Error() string {
	return fmt.Sprintf("the collector answers %d %s: %s", r.status, http.StatusText(r.status), r.text)
}

// refusal returns whether and when to retry after an error.
func refusal(err error) refused {
	var r *refused
	if errors.As(err, &r) {
		return *r
	}
	return refused{}
}

// mostAnswer bounds what is read of an answer, in bytes.
const mostAnswer = 64 << 10

// post sends one request, and returns how many of its spans the collector refused.
func (e *exporter) post(body []byte) (refusedSpans int, err error) {
	ctx, cancel := context.WithTimeout(e.live, e.config.Traces.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.config.target(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range e.config.Traces.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "bullpen/"+e.config.Version)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusAccepted || answer.StatusCode == http.StatusNoContent {
		return int(rejected(text)), nil
	}
	if err != nil {
		return 0, err
	}
	no := &refused{status: answer.StatusCode, text: printable(text), final: true}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		no.final = false
		if s, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16); err == nil {
			no.after = time.Duration(s) * time.Second
		}
	}
	return 0, no
}

// printable returns the beginning of an answer, for the log.
func printable(text []byte) string {
	const most = 200
	text = bytes.ToValidUTF8(text[:min(len(text), most)], nil)
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, text))
}

// close refuses further spans and sends the waiting ones, until ctx ends.
func (e *exporter) close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.nudge()
	select {
	case <-e.done:
	case <-ctx.Done():
		e.kill()
		<-e.done
	}
	e.kill()
}

func (e *exporter) counts() Counts {
	e.mu.Lock()
	waiting := len(e.waiting)
	e.mu.Unlock()
	return Counts{Sent: e.sent.Load(), Dropped: e.dropped.Load(), Failures: e.failures.Load(), Waiting: waiting}
}
