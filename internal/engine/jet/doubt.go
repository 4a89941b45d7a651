package jet

import "time"

// doubtPatience is how long a server may leave everything unanswered before
// another one of the cluster is tried: it may be cut off from the rest.
const doubtPatience = 2 * apiPatience

// trust notes that the server has answered.
func (e *Engine) trust() { e.answeredAt.Store(time.Now().UnixNano()) }

// doubt notes that the server has not answered a question. When it has answered
// none for long, the connection is made anew, to another server where the address
// names one.
func (e *Engine) doubt() {
	last, now := e.answeredAt.Load(), time.Now().UnixNano()
	if !e.Shared() || now-last < int64(doubtPatience) || !e.answeredAt.CompareAndSwap(last, now) {
		return
	}
	e.log.Warn("jet: the server answers nothing; trying another", "server", e.conn.ConnectedUrlRedacted())
	if err := e.conn.ForceReconnect(); err != nil {
		e.log.Debug("jet: the connection was not made anew", "error", err)
	}
}
