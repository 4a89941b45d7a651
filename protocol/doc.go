// Package protocol is the Go codec of the worker wire format: the frames that a host and
// its worker processes exchange. SPEC.md in this folder is the specification; vectors/
// holds the test vectors for all SDKs.
//
// The package handles only bytes: it appends to and reads from slices that its callers own.
// It allocates nothing per task, and imports nothing of Bullpen. Its functions hold no
// state and are safe for concurrent use.
package protocol
