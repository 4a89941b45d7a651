package queue

// Check reports every fault of c that [Open] would find before it opens the
// store.
func (c Config) Check() error { return c.check() }
