package jet

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// kind says whether a request may wait.
type kind int

const (
	quick kind = iota // only what is there now
	slow              // also what comes later
)

// feed is a subscription to which deliveries come, and the account of what was
// asked for by it. A delivery does not tell which request it answers, and the
// server serves waiting requests in turn; so the account is kept for all
// requests of a feed together:
//
//   - of a slow request the server tells how much it did not get, when it ends
//   - of a quick one it does not, so there is only one of them at a time
//
// Requests are not taken back by the end of the subscription. In a cluster that would
// lose messages until their lease ends: the server that this program is connected with
// drops what another one sends before that has heard of the end. The requests live on
// until they expire, which is soon, and only the account of the caller is closed: what
// is due is more than what is open. What comes meanwhile is given to whatever is open,
// new requests take such places over first, and the rest goes back to the server.
type feed struct {
	taker   *taker
	kind    kind
	sub     *nats.Subscription
	inbox   string        // of sub, a dot at its end
	through chan struct{} // closed when sub has ended and its last callback has returned

	due   int   // guarded by taker.mu: what the server may still hand out
	open  int   // guarded by taker.mu: what the caller still waits for; not more than due
	heard int64 // guarded by taker.mu: the tick of the last word or request

	// Guarded by taker.mu: of what is open, what is returned when the server has
	// answered a barrier, at the next tick but one, and at the next tick.
	recalled, brief, leaving int
	settled                  chan struct{} // guarded by taker.mu: closed by the next answer to a barrier; nil when nobody waits
	dry                      chan struct{} // guarded by taker.mu: closed when nothing is due; nil when nobody waits

	retired bool // guarded by taker.mu: no request is made by it any more
}

// requestWaits is how long a request that may wait lives on the server. It cannot be
// taken back safely, and its end tells that the server is still there.
const requestWaits = 2 * time.Second

// shortSilence is how long the server may be silent about what it should
// answer soon.
const shortSilence = 4 * time.Second

// silence is how many ticks the server may say nothing about requests.
func silence(k kind) int64 {
	if k == slow {
		return int64((requestWaits + shortSilence) / tick)
	}
	return int64(shortSilence / tick)
}

// question is a request for n messages in the server's words.
func question(k kind, n int) []byte {
	q := strconv.AppendInt(append(make([]byte, 0, 96), `{"batch":`...), int64(n), 10)
	if k == quick {
		return append(q, `,"no_wait":true}`...)
	}
	return append(strconv.AppendInt(append(q, `,"expires":`...), int64(requestWaits), 10), '}')
}

// newFeed subscribes. t.mu is held.
func (t *taker) newFeed(k kind) (*feed, error) {
	f := &feed{taker: t, kind: k, inbox: t.engine.conn.NewInbox() + ".", through: make(chan struct{})}
	sub, err := t.engine.conn.Subscribe(f.inbox+"*", f.hear)
	if err != nil {
		return nil, err
	}
	f.sub = sub
	sub.SetClosedHandler(func(string) { f.ended() })
	// What is dropped here would have to wait for its lease.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	return f, nil
}

// reply is where the answers to a request for n messages go.
func (f *feed) reply(n int) string {
	var room [96]byte
	return string(strconv.AppendInt(append(room[:0], f.inbox...), int64(n), 36))
}

// asked reads from the subject of a status for how many its request was.
func (f *feed) asked(subject string) int {
	n, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 36, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// drain ends the subscription: the server drops its requests, what is on its
// way still comes. It does not wait.
func (f *feed) drain() {
	if !f.taker.engine.connected.Load() || f.sub.Drain() != nil {
		_ = f.sub.Unsubscribe() // It fails when the subscription has ended already.
	}
}

// ended returns what did not come. It is the last that the subscription does.
func (f *feed) ended() {
	t := f.taker
	t.mu.Lock()
	n := f.open
	f.owe(0)
	delete(t.retired, f)
	if t.feeds[f.kind] == f {
		t.feeds[f.kind] = nil // The connection was closed.
	}
	f.wake()
	t.mu.Unlock()
	t.giveBack(n)
	close(f.through)
}

// owe notes how much is due. It returns how much less is open for it. t.mu is held.
func (f *feed) owe(due int) (n int) {
	f.due = max(due, 0)
	n = f.shut(f.open - f.due)
	if f.due == 0 && f.dry != nil {
		close(f.dry)
		f.dry = nil
	}
	return n
}

// shut closes the account of up to n open ones, and returns of how many. t.mu is held.
func (f *feed) shut(n int) int {
	n = max(min(n, f.open), 0)
	f.open -= n
	f.recalled = min(f.recalled, f.open)
	f.leaving = min(f.leaving, f.open)
	f.brief = min(f.brief, f.open-f.leaving)
	return n
}

// hear takes what comes to the subscription.
func (f *feed) hear(m *nats.Msg) {
	switch {
	case strings.HasPrefix(m.Reply, "$JS.ACK."):
		f.taker.delivered(f, m)
	case strings.HasSuffix(m.Subject, barrierToken):
		f.passed()
	default:
		f.status(m.Subject, first(m.Header, "Status"), first(m.Header, "Description"), first(m.Header, "Nats-Pending-Messages"))
	}
}

// status takes what the server says of a request.
func (f *feed) status(subject, code, description, pending string) {
	t := f.taker
	if code == "" {
		return // No delivery and no status: not from a server that we know.
	}
	now, refused := 0, false
	t.mu.Lock()
	f.heard = t.engine.ticks.Load()
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
		// All requests have ended, those that were not told of too; but what was sent
		// before may still come.
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

// take counts what a request did not get, and returns what is to be returned of
// that. t.mu is held.
func (f *feed) take(subject, pending string) int {
	n := f.due // A quick request is alone.
	if f.kind == slow {
		n = f.asked(subject)
		if p, ok := number(pending); ok {
			n = int(min(p, uint64(n)))
		}
	}
	return f.owe(f.due - n)
}

// ends reports whether a status is about all requests of a consumer.
func ends(description string) bool {
	return strings.Contains(description, "Leadership Change") || strings.Contains(description, "Consumer Deleted") ||
		strings.Contains(description, "Server Shutdown")
}
