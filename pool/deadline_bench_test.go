package pool

import (
	"testing"
	"time"
)

// BenchmarkDeadline has one producer with 1024 tasks under way, each with a
// deadline or without.
func BenchmarkDeadline(b *testing.B) {
	for name, timeout := range map[string]time.Duration{"none": 0, "second": time.Second} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p := open(b, Config{Max: 4})
			f := NewFunc(p.With(Options{Timeout: timeout}), fact)
			futures := make([]Future[uint64], 1024)
			for i := 0; i < b.N; i += len(futures) {
				for k := range futures {
					var err error
					if futures[k], err = f.Submit(bg, 5); err != nil {
						b.Fatal(err)
					}
				}
				for _, future := range futures {
					if _, err := future.Take(bg); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
