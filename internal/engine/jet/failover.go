package jet

import (
	"bytes"
	"time"
)

// uselessFor is how long a server may be of no use before the engine tries another one of
// the cluster: it may be cut off from the others.
const uselessFor = 2 * apiPatience

// noteUseful records that the server did something useful.
func (e *Engine) noteUseful() { e.answeredAt.Store(time.Now().UnixNano()) }

// noteAnswer records whether an answer shows that the server reaches the servers that
// keep the streams. One that is cut off still answers: with no responder, or no leader.
func (e *Engine) noteAnswer(useful bool) {
	if useful {
		e.noteUseful()
	} else {
		e.noteUseless()
	}
}

// noteUseless records that the server was of no use. If that lasts too long, the engine
// reconnects, to another server if the address names one.
func (e *Engine) noteUseless() {
	last, now := e.answeredAt.Load(), time.Now().UnixNano()
	if now-last < int64(uselessFor) || !e.answeredAt.CompareAndSwap(last, now) {
		return
	}
	e.log.Warn("jet: the server is stuck; trying another one", "server", e.conn.ConnectedUrlRedacted())
	if err := e.conn.ForceReconnect(); err != nil {
		e.log.Debug("jet: reconnecting failed", "error", err)
	}
}

// unable reports whether an answer means that the server reaches no leader.
func unable(answer []byte) bool {
	return bytes.Contains(answer, []byte(`"err_code":10008,`)) || bytes.Contains(answer, []byte(`"err_code":10009,`))
}
