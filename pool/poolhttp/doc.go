// Package poolhttp puts existing synchronous HTTP handlers behind a lane of a
// [pool.Pool], so that a slow endpoint is bounded and cannot take the room that
// the others need (a bulkhead). The handlers are not rewritten.
//
// Use [Handler] if the defaults will do, and [Config] to say how long requests may
// wait, what a refusal looks like, and how much of an answer is buffered.
//
//	lane, err := p.Lane(pool.LaneConfig{Name: "reports", Limit: 10, Queue: 50, Overflow: pool.Reject, Timeout: 5 * time.Second})
//	...
//	h, err := poolhttp.Handler(lane, reports)
//	...
//	mux.Handle("/reports", h)
//
// # What the client gets
//
//   - What the handler answered.
//   - 503 with Retry-After when the handler was not started: the queue of the lane
//     is full, the request waited longer than Config.Wait, or the pool ends.
//   - 504 when the handler ran longer than the timeout of its place, lane or pool.
//     The client is answered at the deadline. The context of the request ends
//     then, and what the handler still writes is dropped: its writes return
//     http.ErrHandlerTimeout. It keeps its place in the lane until it returns.
//   - 500 when the handler panicked. The panic and its stack are in the pool's
//     events and log; the server's own log does not have them.
//   - An aborted connection when the handler panicked with http.ErrAbortHandler, as
//     without this package, and where one of the above comes too late because
//     parts of the answer have been sent.
//
// When the client goes away or the server ends the request, a request that waits is
// removed from the queue at once, and the context of one that runs ends. One that
// goes on for longer than the pool's grace is left alone.
//
// # Answers
//
// The answer is collected in memory and sent by the server's goroutine when the
// handler has returned, so that a client that reads slowly does not hold a place
// of the lane. Longer answers than Config.Buffer, and those that are flushed, are
// streamed: what was collected is sent, and the rest goes straight through, from
// the handler and at the client's speed. So streaming works, but holds the place.
//
// The http.ResponseWriter that the handler gets is an http.Flusher, and through an
// http.ResponseController it has Flush, SetReadDeadline, SetWriteDeadline and
// EnableFullDuplex where the server's has them. Informational answers (1xx) are
// sent at once, and trailers work. It is no http.Hijacker, io.ReaderFrom or
// http.Pusher: connections that are taken over (websockets) do not belong into
// a lane.
//
// # Overflow
//
// The lane must have the overflow rule pool.Reject or pool.DropOldest. With
// pool.Block requests would wait without a bound, and with pool.CallerRuns (of
// a pool) they would run in the server's goroutines, beyond the limit.
package poolhttp
