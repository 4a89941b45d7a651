package engine

// EntryKind says what an [Entry] tells of a job.
type EntryKind uint8

// The kinds of entries.
const (
	// Other is no job: nothing is counted.
	Other EntryKind = iota
	// Accepted: the job is in the store.
	Accepted
	// Ended: its outcome is.
	Ended
)

// Entry is what is counted of a confirm.
type Entry struct {
	Kind EntryKind
	ID   string // a ULID: 26 characters
}

// Disk is what an embedded server adds to its streams: it makes stored messages
// survive a loss of power, and keeps count of them in files of its own. Nil
// stands for a server elsewhere, which confirms by its own means. All methods
// are safe for concurrent use and none but Close blocks for longer than a
// write to the page cache.
type Disk interface {
	// Confirm calls done once everything that the server had answered for
	// before the call survives a loss of power; never before Confirm returns
	// from the disk's own goroutine, and in the order of the calls. An error
	// says that this is not known. e is counted.
	Confirm(e Entry, done func(error))
	// Mark notes, so that it survives the death of this process, that messages
	// up to seq are being handed out by c.
	Mark(c Consumer, seq uint64) error
	// Marked returns the highest mark of c that an earlier process left. When
	// the machine has been started anew since, or the file was damaged, what it
	// says may be too low: then sure is false.
	Marked(c Consumer) (seq uint64, sure bool)
	// Begin notes, as Mark does, that the message seq of Jobs begins to run, of a
	// consumer whose order of handing out says nothing of that; End that it does no
	// more. Begun tells whether an earlier process left it begun.
	Begin(seq uint64) error
	End(seq uint64)
	Begun(seq uint64) bool
	// Room is nil, or why no job of so many bytes is taken: too little space is
	// left on the disk for what is under way to be ended. It wraps ErrFull.
	Room(size int64) error
	// Probe has the disk written and synced in the background, for the case that
	// the server does not answer any more: if that goes wrong the disk has failed.
	Probe()
	// Count and Unended are as in [Engine].
	Count(id string)
	Unended() (ids []string, known bool)
	// Failed is closed when the disk has failed; Err says why.
	Failed() <-chan struct{}
	Err() error
	// Durability and Fallback are as in [Info].
	Durability() string
	Fallback() string
	SyncStats() SyncStats
}
