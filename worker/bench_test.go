//go:build unix

package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

// BenchmarkLoop is a whole worker process behind two pipes: the host writes
// batches, and reads answers beside it.
func BenchmarkLoop(b *testing.B) {
	for _, c := range []struct {
		worker, task string
		size, batch  int
	}{
		{"zoo", "null", 0, 1}, {"zoo", "null", 0, 32}, {"zoo", "null", 0, 256}, {"zoo", "echo", 16, 32},
		{"zoo", "echo", 1024, 32}, {"several", "null", 0, 32},
	} {
		b.Run(fmt.Sprintf("%s/%s%d/batch%d", c.worker, c.task, c.size, c.batch), func(b *testing.B) {
			h := start(b, c.worker, true)
			h.greet()
			var batch []byte
			for id := range c.batch {
				batch = append(batch, taskWith(protocol.Header{ID: uint32(id + 1)}, c.task, string(make([]byte, c.size)))...)
			}
			check(b, h.out.SetReadDeadline(time.Time{}))
			answers := b.N/c.batch + 1
			b.ResetTimer()
			begin := time.Now()
			go func() { // ends when all is written; the answers prove that it is
				for range answers {
					_, _ = h.in.Write(batch)
				}
			}()
			buf := make([]byte, 256<<10)
			for left := answers * c.batch * (protocol.HeaderSize + c.size); left > 0; {
				n, err := h.out.Read(buf)
				check(b, err)
				left -= n
			}
			b.ReportMetric(float64(answers*c.batch)/time.Since(begin).Seconds(), "tasks/s")
			b.StopTimer()
			h.finish()
		})
	}
}
