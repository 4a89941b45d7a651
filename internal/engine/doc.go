// Package engine says what the durable queue needs of the store under it, and
// nothing more: four streams of messages, consumers that hand messages out and
// take them back, and short messages between nodes. Package internal/engine/jet
// keeps it with NATS JetStream on one server or a cluster, package
// internal/engine/pebble in a folder of this machine, package
// internal/engine/memory in the memory of this process, for tests. All pass
// internal/engine/enginetest.
//
// # What every engine keeps
//
// A message that is stored is there until it is deleted, acknowledged (stream
// Jobs) or older than its stream allows (Outcomes, State with a TTL, Dead): a
// stream of jobs never drops one to make room, it refuses the next (ErrFull).
// Sequence numbers of a stream rise and are never used twice. Put with a
// condition is one atomic step, so that of two callers one gets ErrConflict.
// What a consumer has handed out is handed out again when neither Ack, Nak nor
// Extend came within the lease, and never to two takers within it.
package engine
