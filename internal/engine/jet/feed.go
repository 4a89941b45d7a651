package jet

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// kind is whether a request may wait.
type kind int

const (
	quick kind = iota // only messages available now
	slow              // also messages that come later
)

// feed is a subscription that receives deliveries, and the account of its requests. A
// delivery does not say which request it answers, and the server serves waiting requests
// in turn; so one account covers all requests of a feed:
//
//   - when a slow request ends, the server reports how many messages it did not get
//   - for a quick request it does not, so there is only one of them at a time
//
// Requests are not taken back by ending the subscription: in a cluster that would lose
// messages until their lease ends: the server of this connection drops what another
// server sends before that one has learned of the end. Instead, requests live on until
// they expire, which is soon, and only the caller's account is closed: more is due than
// is open. Messages that come meanwhile go to any open request. New requests first take
// over such places; the rest is given back to the server.
type feed struct {
	taker   *taker
	kind    kind
	sub     *nats.Subscription
	inbox   string        // of sub, ending in a dot
	through chan struct{} // closed when sub has ended and its last callback has returned

	due      int   // guarded by taker.mu: how many messages the server may still hand out
	open     int   // guarded by taker.mu: how many of these the caller still waits for
	received int64 // guarded by taker.mu: the tick of the last message or request

	// Guarded by taker.mu: the parts of open that are returned when the server has
	// answered a barrier, at the next tick but one, and at the next tick.
	recalled, brief, leaving int
	settled                  chan struct{} // guarded by taker.mu: closed by the next answer to a barrier; nil if no goroutine waits
	dry                      chan struct{} // guarded by taker.mu: closed when nothing is due; nil if no goroutine waits

	retired bool // guarded by taker.mu: it makes no more requests
}

// requestWaits is how long a waiting request lives on the server. It cannot be taken back
// safely, and its end shows that the server still works.
const requestWaits = 2 * time.Second

// shortSilence is how long the server may take to answer what it should answer soon.
const shortSilence = 4 * time.Second

// silence returns for how many ticks the server may not answer requests.
func silence(k kind) int64 {
	if k == slow {
		return int64((requestWaits + shortSilence) / tick)
	}
	return int64(shortSilence / tick)
}

// question encodes a request for n messages.
func question(k kind, n int) []byte {
	q := strconv.AppendInt(append(make([]byte, 0, 96), `{"batch":`...), int64(n), 10)
	if k == quick {
		return append(q, `,"no_wait":true}`...)
	}
	return append(strconv.AppendInt(append(q, `,"expires":`...), int64(requestWaits), 10), '}')
}

// newFeed creates a feed and its subscription. t.mu is held.
func (t *taker) newFeed(k kind) (*feed, error) {
	f := &feed{taker: t, kind: k, inbox: t.engine.conn.NewInbox() + ".", through: make(chan struct{})}
	sub, err := t.engine.conn.Subscribe(f.inbox+"*", f.handle)
	if err != nil {
		return nil, err
	}
	f.sub = sub
	sub.SetClosedHandler(func(string) { f.ended() })
	// A message dropped here would have to wait for its lease.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	return f, nil
}

// reply returns the subject for the answers to a request for n messages.
func (f *feed) reply(n int) string {
	var room [96]byte
	return string(strconv.AppendInt(append(room[:0], f.inbox...), int64(n), 36))
}

// asked returns the size of a request, from the subject of its status.
func (f *feed) asked(subject string) int {
	n, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 36, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// drain ends the subscription: the server drops its requests, and messages on their way
// still arrive. It does not wait.
func (f *feed) drain() {
	if !f.taker.engine.connected.Load() || f.sub.Drain() != nil {
		_ = f.sub.Unsubscribe() // fails if the subscription has ended already
	}
}

// ended returns the requests that were not served. It is the last callback of the
// subscription.
func (f *feed) ended() {
	t := f.taker
	t.mu.Lock()
	n := f.open
	f.owe(0)
	delete(t.retired, f)
	if t.feeds[f.kind] == f {
		t.feeds[f.kind] = nil // the connection was closed
	}
	f.wake()
	t.mu.Unlock()
	t.giveBack(n)
	close(f.through)
}

// owe sets how much is due, and returns by how much open falls. t.mu is held.
func (f *feed) owe(due int) (n int) {
	f.due = max(due, 0)
	n = f.shut(f.open - f.due)
	if f.due == 0 && f.dry != nil {
		close(f.dry)
		f.dry = nil
	}
	return n
}

// shut closes the account of up to n open places, and returns how many. t.mu is held.
func (f *feed) shut(n int) int {
	n = max(min(n, f.open), 0)
	f.open -= n
	f.recalled = min(f.recalled, f.open)
	f.leaving = min(f.leaving, f.open)
	f.brief = min(f.brief, f.open-f.leaving)
	return n
}

// handle handles a message of the subscription.
func (f *feed) handle(m *nats.Msg) {
	switch {
	case strings.HasPrefix(m.Reply, "$JS.ACK."):
		f.taker.delivered(f, m)
	case strings.HasSuffix(m.Subject, barrierToken):
		f.passed()
	default:
		f.status(m.Subject, first(m.Header, "Status"), first(m.Header, "Description"), first(m.Header, "Nats-Pending-Messages"))
	}
}

// status handles what the server reports of a request.
func (f *feed) status(subject, code, description, pending string) {
	t := f.taker
	if code == "" {
		return // neither a delivery nor a status: from an unknown server
	}
	now, refused := 0, false
	t.mu.Lock()
	f.received = t.engine.ticks.Load()
	switch {
	case code == "100":
	case code == "404", code == "408":
		now = f.take(subject, pending)
		if f.kind == quick && strings.Contains(description, "Requests Pending") {
			now -= t.standIn(now)
		}
	case !ends(description):
		t.owed += f.take(subject, pending)
		refused = true
	default:
		// All requests have ended, including those without a report; messages sent before
		// may still arrive.
		t.owed += f.owe(0)
		refused = true
	}
	if f.kind == quick && !t.stopping {
		t.askQueued()
	}
	t.mu.Unlock()
	if refused {
		t.engine.noteAnswer(code != "503" && !ends(description))
		t.engine.log.Debug("jet: a request for jobs was refused", "consumer", consumerName(t.consumer), "status", code, "words", description)
		if code == "503" || strings.Contains(description, "Deleted") {
			t.engine.forget(t.consumer)
		}
	}
	if !refused {
		t.engine.noteAnswer(true)
	}
	t.giveBack(now)
}

// take accounts for what a request did not get, and returns how many places to return.
// t.mu is held.
func (f *feed) take(subject, pending string) int {
	n := f.due // a quick request is alone
	if f.kind == slow {
		n = f.asked(subject)
		if p, ok := number(pending); ok {
			n = int(min(p, uint64(n)))
		}
	}
	return f.owe(f.due - n)
}

// ends reports whether a status concerns all requests of a consumer.
func ends(description string) bool {
	return strings.Contains(description, "Leadership Change") || strings.Contains(description, "Consumer Deleted") ||
		strings.Contains(description, "Server Shutdown")
}
