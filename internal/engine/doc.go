// Package engine defines what the durable queue needs from its store: four streams of
// messages, consumers that hand messages out and take them back, and short messages
// between nodes. Package internal/engine/jet implements it with NATS JetStream on one
// server or a cluster, package internal/engine/pebble with a folder on this machine, and
// package internal/engine/memory with the memory of this process, for tests. All three
// pass internal/engine/enginetest.
//
// # What every engine guarantees
//
// A stored message stays until it is deleted, acknowledged (stream Jobs) or older than
// its stream allows (Outcomes, State with a TTL, Dead). The stream Jobs never drops a
// message to make room: it refuses the next one with ErrFull. The sequence numbers of a
// stream rise and are never reused. A Put with a condition is one atomic step: of two
// callers one gets ErrConflict. A message that was handed out is handed out again if
// neither Ack, Nak nor Extend comes within the lease, and never to two takers within one
// lease.
package engine
