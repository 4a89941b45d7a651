package live

// Feed gives the events of one task as they happen. A reader that is slower than
// its task loses events, never slows it.
type Feed struct {
	// C gives the events; it is closed when the attempt has ended, and by Close.
	C <-chan Event
}

// Close ends the feed. It may be called again.
func (f *Feed) Close() {}

// Dropped tells how many events this feed has missed.
func (f *Feed) Dropped() uint64 { return 0 }
