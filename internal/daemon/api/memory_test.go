package api

import (
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	config "github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// zeros is a body of so many zero bytes.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	z.left -= n
	clear(p[:n])
	return int(n), nil
}

// TestBodiesKeepToTheirRoom sends far more at the same time than all bodies may have,
// and wants the heap to stay near that. It runs alone, so that it can look at the
// whole process.
func TestBodiesKeepToTheirRoom(t *testing.T) { //nolint:paralleltest // see above
	const body, room, senders = 24 << 20, 96 << 20, 16
	s := newProtectedSite(t, access.Config{HTTP: config.HTTP{MaxBody: body, MaxInflight: room}, Times: access.Times{Room: time.Minute}}, func(c *Config) { c.MaxBody = body })
	runtime.GC()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() { // ends with stop; waited for below
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var most uint64
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				most = max(most, sample[0].Value.Uint64())
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	var all sync.WaitGroup
	for range senders {
		all.Go(func() { // ends with its answer
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.http.URL+"/v1/pools/main/run?task=swallow", &zeros{body})
			if err != nil {
				t.Error(err)
				return
			}
			r.ContentLength = body
			a, err := s.http.Client().Do(r)
			if err != nil {
				return // it was refused for want of room, as it may be
			}
			a.Body.Close()
		})
	}
	all.Wait()
	close(stop)
	if most := <-peak; most > 3*room {
		t.Errorf("the heap was up to %d MiB, with bodies of %d MiB at most at a time", most>>20, room>>20)
	} else {
		t.Logf("the heap was up to %d MiB", most>>20)
	}
}
