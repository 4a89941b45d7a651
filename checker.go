package bullpen

// Checker is an [Executor] that says beforehand what it would refuse. Check reports
// why no worker could take t, whatever the load: a limit that is not kept, a name
// without a handler, a payload that cannot travel. The error is [ErrRefused] or
// [ErrUnknownTask]. Nil promises nothing: what only a worker knows shows when it has
// started. Check does not block and may be called at any time.
type Checker interface {
	Check(t Task) error
}
