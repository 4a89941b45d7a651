package jet

import (
	"bytes"
	"time"
)

// uselessFor is how long a server may be of no use before another one of the
// cluster is tried: it may be cut off from the rest.
const uselessFor = 2 * apiPatience

// noteUseful notes that the server has done something.
func (e *Engine) noteUseful() { e.answeredAt.Store(time.Now().UnixNano()) }

// noteAnswer notes whether an answer shows that the server reaches those who keep the
// streams. One that is cut off still answers: that nobody is there, or no leader.
func (e *Engine) noteAnswer(useful bool) {
	if useful {
		e.noteUseful()
	} else {
		e.noteUseless()
	}
}

// noteUseless notes that the server was of no use. When it has been so for long, the
// connection is made anew, to another server where the address names one.
func (e *Engine) noteUseless() {
	last, now := e.answeredAt.Load(), time.Now().UnixNano()
	if now-last < int64(uselessFor) || !e.answeredAt.CompareAndSwap(last, now) {
		return
	}
	e.log.Warn("jet: the server does nothing; trying another", "server", e.conn.ConnectedUrlRedacted())
	if err := e.conn.ForceReconnect(); err != nil {
		e.log.Debug("jet: the connection was not made anew", "error", err)
	}
}

// unable reports whether an answer says that the server reaches no leader.
func unable(answer []byte) bool {
	return bytes.Contains(answer, []byte(`"err_code":10008,`)) || bytes.Contains(answer, []byte(`"err_code":10009,`))
}
