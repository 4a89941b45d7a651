// Package poolhttp puts existing synchronous HTTP handlers behind a lane of a [pool.Pool],
// so that a slow endpoint is bounded and cannot take the resources that other endpoints
// need (a bulkhead). The handlers need no changes.
//
// Use [Handler] for the defaults. Use [Config] to set how long requests may wait, what a
// refusal looks like, and how much of an answer is buffered.
//
//	lane, err := p.Lane(pool.LaneConfig{Name: "reports", Limit: 10, Queue: 50, Overflow: pool.Reject, Timeout: 5 * time.Second})
//	...
//	h, err := poolhttp.Handler(lane, reports)
//	...
//	mux.Handle("/reports", h)
//
// # What the client gets
//
//   - The handler's answer.
//   - 503 with Retry-After if the handler was not started: the lane's queue is full, the
//     request waited longer than Config.Wait, or the pool is shutting down.
//   - 504 if the handler ran longer than the timeout of its submitter, lane or pool. The client is
//     answered at the timeout. The context of the request then ends, and the handler's
//     further writes are dropped and return http.ErrHandlerTimeout. The handler occupies its
//     place in the lane until it returns.
//   - 500 if the handler panicked. The pool's events and log contain the panic and its stack;
//     the server's own log does not.
//   - An aborted connection if the handler panicked with http.ErrAbortHandler, as without this
//     package. Also if one of the errors above occurs after parts of the answer were sent.
//
// If the client disconnects or the server ends the request, a waiting request is removed
// from the queue immediately, and the context of a running one ends. If the handler keeps running
// for longer than the pool's grace, ServeHTTP returns without waiting for it.
//
// # Answers
//
// The answer is collected in memory, and the server's goroutine sends it when the handler
// has returned. So a client that reads slowly does not occupy a place of the lane. Answers
// longer than Config.Buffer, and those that the handler flushes, are streamed: what was
// collected is sent, and the handler writes the rest directly, at the client's speed. So
// streaming works, but occupies the place.
//
// The http.ResponseWriter that the handler gets implements http.Flusher. With an
// http.ResponseController, it supports Flush, SetReadDeadline, SetWriteDeadline and
// EnableFullDuplex if the server's writer does. Informational answers (1xx) are sent
// immediately, and trailers work. It does not implement http.Hijacker, io.ReaderFrom or
// http.Pusher: hijacked connections (websockets) do not belong in a lane.
//
// # Overflow
//
// The lane must have the overflow rule pool.Reject or pool.DropOldest. With pool.Block,
// requests would wait without a bound. With pool.CallerRuns (of a pool), they would run in
// the server's goroutines, beyond the limit.
package poolhttp
