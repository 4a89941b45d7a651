// Package protocol is the Go codec of the worker wire format, the frames that a
// host and its worker processes exchange. SPEC.md beside this file is binding;
// vectors/ has the test vectors that every SDK walks.
//
// The package knows bytes only: it appends to and reads from slices that its
// callers own, allocates nothing on the path of a task, and imports nothing of
// Bullpen. Its functions hold no state and are safe for concurrent use.
package protocol
