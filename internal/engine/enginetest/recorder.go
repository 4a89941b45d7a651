package enginetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// recorder takes messages of one consumer and records them. It checks the rules that always
// hold: one call at a time, none after Stop, and no more delivered and returned than
// requested.
type recorder struct {
	t     *testing.T
	taker engine.Taker
	ack   bool          // acknowledge at once
	news  chan struct{} // something has come
	calls atomic.Int32  // calls in progress

	mu        sync.Mutex
	got       []arrival // not yet returned by next; guarded by mu
	requested int       // guarded by mu
	delivered int       // guarded by mu
	returned  int       // guarded by mu
	stopped   bool      // guarded by mu
}

// arrival is a delivery and when it came.
type arrival struct {
	engine.Delivery

	came time.Time
}

// take starts to take messages of c with e, and stops at the end of the test.
func take(t *testing.T, e engine.Engine, c engine.Consumer) *recorder {
	t.Helper()
	return begin(t, e, c, false)
}

// takeAndAck acknowledges everything at once.
func takeAndAck(t *testing.T, e engine.Engine, c engine.Consumer) *recorder {
	t.Helper()
	return begin(t, e, c, true)
}

func begin(t *testing.T, e engine.Engine, c engine.Consumer, ack bool) *recorder {
	t.Helper()
	h := &recorder{t: t, ack: ack, news: make(chan struct{}, 1)}
	taker, err := e.Take(c, h.deliver, h.back)
	if err != nil {
		t.Fatalf("Take of %v = %v, want a taker", c, err)
	}
	h.taker = taker
	t.Cleanup(h.stop)
	return h
}

func (fx *fixture) take(c engine.Consumer) *recorder {
	fx.t.Helper()
	return take(fx.t, fx.Engine, c)
}

func (h *recorder) deliver(d engine.Delivery) {
	now := time.Now()
	h.enter("deliver")
	defer h.leave()
	h.mu.Lock()
	h.delivered++
	h.got = append(h.got, arrival{d, now})
	h.checkSum()
	h.mu.Unlock()
	if h.ack {
		d.Ack()
	}
}

func (h *recorder) back(n int) {
	h.enter("returned")
	defer h.leave()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n <= 0 {
		h.t.Errorf("returned(%d), want more than 0", n)
	}
	h.returned += n
	h.checkSum()
}

// checkSum checks the counts. mu is held.
func (h *recorder) checkSum() {
	if h.delivered+h.returned > h.requested {
		h.t.Errorf("%d messages were requested, %d delivered and %d returned, which is more", h.requested, h.delivered, h.returned)
	}
}

func (h *recorder) enter(what string) {
	if h.calls.Add(1) != 1 {
		h.t.Errorf("%s was called while another call was under way", what)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		h.t.Errorf("%s was called after Stop had returned", what)
	}
}

func (h *recorder) leave() {
	h.calls.Add(-1)
	select {
	case h.news <- struct{}{}:
	default: // a signal is pending
	}
}

func (h *recorder) request(n int, wait bool) {
	h.mu.Lock()
	h.requested += n
	h.mu.Unlock()
	h.taker.Request(n, wait)
}

// open returns how many requests were neither delivered nor returned.
func (h *recorder) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requested - h.delivered - h.returned
}

// count returns how many were delivered and returned.
func (h *recorder) count() (delivered, returned int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delivered, h.returned
}

func (h *recorder) stop() {
	h.t.Helper()
	_ = within(h.t, "Stop", func() error { h.taker.Stop(); return nil }) // the call returns no error
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// first removes and returns the oldest message, if any.
func (h *recorder) first() (arrival, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) == 0 {
		return arrival{}, false
	}
	a := h.got[0]
	h.got = h.got[1:]
	return a, true
}

// by returns the next message that comes before a moment. It makes a request if none is
// open; an engine may return a waiting one after a time.
func (h *recorder) by(moment time.Time) (arrival, bool) {
	h.t.Helper()
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	for {
		if a, ok := h.first(); ok {
			return a, true
		}
		if h.open() == 0 {
			h.request(1, true)
		}
		select {
		case <-h.news:
		case <-timer.C:
			return h.first()
		}
	}
}

// next returns the next message, which must come.
func (h *recorder) next() arrival {
	h.t.Helper()
	a, ok := h.by(time.Now().Add(Patience))
	if !ok {
		h.t.Fatalf("nothing was delivered within %v", Patience)
	}
	return a
}

// nothing checks that no message can be had now.
func (h *recorder) nothing(when string) {
	h.t.Helper()
	before := h.open()
	h.request(1, false)
	eventually(h.t, "a request without wait is answered "+when, func() bool { return h.open() <= before })
	if a, ok := h.first(); ok {
		h.t.Errorf("%s was delivered %s, want nothing", a.Subject, when)
	}
}
