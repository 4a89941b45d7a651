package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// BenchmarkRequests is a no-op through the whole daemon, by one caller and by 64,
// over loopback, with the caller in the same process.
func BenchmarkRequests(b *testing.B) {
	text := fmt.Sprintf("http: {listen: '127.0.0.1:0'}\npools:\n  one: {command: [%q], task: echo, ephemeral: true, workers: {min: 2, max: 2}}\n", self(b))
	s, err := settings.Load(settings.Source{Path: filepath.Join(b.TempDir(), "bullpen.yaml"), Text: []byte(text)})
	if err != nil {
		b.Fatal(err)
	}
	d, err := New(b.Context(), Config{Settings: s})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(b.Context()) }() // ends by Stop
	<-d.Ready()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	url := "http://" + d.Addr().String() + "/v1/pools/one/"
	for _, way := range []string{"run", "jobs?wait=1m"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%.4s/%d", way, callers), func(b *testing.B) { request(b, client, url+way, callers) })
		}
	}
	client.CloseIdleConnections()
	d.Stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

// request sends b.N requests.
func request(b *testing.B, client *http.Client, url string, callers int) {
	b.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for next.Add(1) <= int64(b.N) {
				a, err := client.Post(url, "application/octet-stream", bytes.NewReader([]byte("x")))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, a.Body) // one byte
				a.Body.Close()
				if a.StatusCode != http.StatusOK {
					b.Errorf("%d", a.StatusCode)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "/s")
}
