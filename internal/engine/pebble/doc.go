// Package pebble keeps the durable queue of one machine in a folder, with the
// embedded store github.com/cockroachdb/pebble.
//
// # Writing
//
// One goroutine, the committer, takes all operations that wait, checks their
// conditions in their order, and writes them as one atomic batch that is synced
// before any of them is answered: whoever waits meanwhile is in the next batch.
// Counts of messages and bytes are written in the same batch, so that they are
// exact after a crash and need no walk at the start. Every batch is synced, also
// one without a durable Put: what Pebble writes without a sync waits in the memory
// of the process, so it would not even survive a kill.
//
// Operations that nobody waits for (Ack, schedules that are due) ride with the next
// batch, or go in one of their own a moment later.
//
// # Handing out
//
// What waits lies on the disk, in an index of its own for each consumer, in order.
// A consumer keeps a bounded window of the next messages in memory and fills it
// when it runs low. Leases and delays of what was given back live in memory only:
// after a restart everything that is stored can be handed out again. Which messages
// were in somebody's hands is noted in a small file (hands), which survives
// the death of the process without a sync.
//
// # Failing
//
// A write or a sync that fails, and damage that a checksum shows, end the engine:
// Failed is closed, all that is asked from then on gives ErrFailed, and what was
// confirmed before is there when the store is opened again.
//
// # The folder
//
//	format     the layout of the folder: "bullpen-store 2"
//	lock       is locked by the program that has the store; holder has its number
//	hands      which messages were handed out, or had begun
//	synced     how far logs and manifests were synced, with checksums
//	closed     checksums of the other files, after an orderly end
//	data/      Pebble's
package pebble
