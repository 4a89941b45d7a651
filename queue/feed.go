package queue

import (
	"github.com/bullpen-run/bullpen/internal/feed"
	"github.com/bullpen-run/bullpen/job"
)

// Feed is a subscription to events. A reader that is too slow misses events; it never
// slows down the queue.
type Feed struct {
	// C delivers the events. It is closed by Close and with the queue.
	C    <-chan job.Event
	feed *feed.Feed[job.Event]
}

// Events subscribes to the events of this program's part of the queue from now on.
// buffer is how many events the feed holds; 0 is 256.
func (q *Queue) Events(buffer int) *Feed {
	f := q.jobs.Events(buffer)
	return &Feed{C: f.C, feed: f}
}

// Dropped returns how many events this feed has missed.
func (f *Feed) Dropped() uint64 { return f.feed.Dropped() }

// Close ends the subscription. It may be called again.
func (f *Feed) Close() { f.feed.Close() }
