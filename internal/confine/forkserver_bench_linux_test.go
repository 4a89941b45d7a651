package confine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkServerStart measures starts of idle children, of which none ends
// meanwhile; PRELOAD names modules to preload. Beside the mean it tells the
// median and the memory that a child has for itself.
func BenchmarkServerStart(b *testing.B) {
	var modules []string
	if text := os.Getenv("PRELOAD"); text != "" {
		modules = append(modules, text)
	}
	for _, inFlight := range []int{1, 4} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) {
			s := newSpawner(b, Profile{Guard: true, NoNewPrivs: true, Nice: 5, NiceSet: true})
			spec := zygoteSpec(b, "-c", modules...)
			spec.Args = append([]string{interpreter()}, spec.Args[3:]...)
			v := newServer(b, s, spec)
			in, hostIn, err := HostWritePipe()
			if err != nil {
				b.Fatal(err)
			}
			defer in.Close()
			defer hostIn.Close()
			var mu sync.Mutex
			var all, children sync.WaitGroup
			took := make([]time.Duration, 0, b.N)
			var last *Child
			work := make(chan int)
			for range inFlight {
				all.Go(func() {
					for range work {
						began := time.Now()
						c, err := v.Start(code("import os; os.read(0, 1); os._exit(0)", in, nil, os.Stderr))
						if err != nil {
							b.Error(err)
							continue
						}
						children.Go(func() { _, _ = c.Wait() })
						mu.Lock()
						took, last = append(took, time.Since(began)), c
						mu.Unlock()
					}
				})
			}
			b.ResetTimer()
			for i := range b.N {
				work <- i
			}
			close(work)
			all.Wait()
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-median")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
			b.ReportMetric(float64(ownMemory(b, last))/1024, "KiB-private")
			hostIn.Close()
			children.Wait()
		})
	}
}

// ownMemory is what the child shares with nobody, in bytes.
func ownMemory(b *testing.B, c *Child) (bytes int64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", c.Pid()))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"Private_Clean", "Private_Dirty"} {
		var kilobytes int64
		for line := range strings.Lines(string(text)) {
			if n, _ := fmt.Sscanf(line, name+": %d kB", &kilobytes); n == 1 {
				bytes += kilobytes * 1024
			}
		}
	}
	return bytes
}

// BenchmarkServerLife measures a whole life of a child that has nothing to do,
// with the end of the interpreter and without.
func BenchmarkServerLife(b *testing.B) {
	for name, text := range map[string]string{"end": "pass", "cut": "import os; os._exit(0)"} {
		b.Run(name, func(b *testing.B) {
			v := newServer(b, newSpawner(b, Profile{Guard: true}), zygoteSpec(b, "-c"))
			for b.Loop() {
				if e, err := fork(b, v, code(text)).Wait(); err != nil || e.Code != 0 {
					b.Fatal(e, err)
				}
			}
		})
	}
}
