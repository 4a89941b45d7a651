package bullpen

// Checker is an [Executor] that can report in advance which tasks it would refuse. Check
// returns an error if no worker could ever run t: a limit that the executor cannot enforce,
// a name without a handler, a payload that cannot be transferred. The error wraps
// [ErrRefused] or [ErrUnknownTask]. A nil error is no promise: some faults appear only
// after a worker has started. Check does not block and may be called at any time.
type Checker interface {
	Check(t Task) error
}
