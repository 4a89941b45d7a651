package jobs

import (
	"testing"
	"time"
)

// BenchmarkCounters measures what a job costs that is counted, while all processors
// do so on one queue.
func BenchmarkCounters(b *testing.B) {
	var all queueCounters
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := all.Of("mail")
			c.Enqueued.Add(1)
			c.Taken.Add(1)
			c.Wait.Add(time.Millisecond, 1)
			c.Run.Add(time.Microsecond, 1)
			c.Ended[0].Add(1)
		}
	})
}
