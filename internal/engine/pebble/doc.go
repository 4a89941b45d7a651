// Package pebble keeps the durable queue of one machine in a folder, with the embedded
// store github.com/cockroachdb/pebble.
//
// # Writing
//
// One goroutine, the committer, takes all waiting operations, checks their conditions in
// order, and writes them as one atomic batch. It syncs the batch before it answers any of
// them, and hands its jobs out meanwhile; operations that arrive then go into the next batch. The counts of messages
// and bytes are written in the same batch, so they are exact after a crash and need no
// walk at the start. Every batch is synced, even without a durable Put: what Pebble
// writes without a sync stays in the memory of the process and would not even survive a
// kill.
//
// Operations that no caller waits for (Ack, schedules that are due) go with the next
// batch, or with one of their own a moment later.
//
// # Handing out
//
// Waiting messages lie on the disk, in a separate index for each consumer, in order. A
// consumer keeps a bounded window of the next messages in memory and refills it when it
// runs low. Leases, and delays of messages given back, are kept only in memory: after a
// restart everything stored can be handed out again. Which messages were handed out is
// noted in a small file (hands), which survives the death of the process without a sync.
//
// # Failing
//
// A failed write or sync, or damage found by a checksum, ends the engine. Failed is
// closed, and every later call returns ErrFailed. Everything confirmed before is there
// when the store is opened again.
//
// # The folder
//
//	format     the layout of the folder: "bullpen-store 2"
//	lock       is locked by the program that uses the store; holder has its process id
//	hands      which messages were handed out, or had begun
//	synced     how far logs and manifests were synced, with checksums
//	closed     checksums of the other files, after an orderly end
//	data/      Pebble's files
package pebble
