//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/trace/tracetest"
)

// BenchmarkTraces is a job by 16 callers: without traces, with all of them sampled,
// with none sampled, and with a collector that never answers. cpu-µs is processor
// time of daemon and callers together, which other programs disturb least.
func BenchmarkTraces(b *testing.B) {
	hang := make(chan struct{})
	taking := func(http.ResponseWriter, *http.Request) bool { return true }
	for _, way := range []struct {
		name, more string
		answer     tracetest.Answer
	}{
		{"off", "", nil},
		{"all", "", taking}, // which a real one decodes on a machine of its own
		{"none", ", sample: 0", taking},
		{"deaf", ", timeout: 1s", func(http.ResponseWriter, *http.Request) bool { <-hang; return true }},
	} {
		to := tracetest.New()
		to.Refuse(way.answer)
		traces := ""
		if way.answer != nil {
			traces = fmt.Sprintf("traces: {endpoint: %q%s}\n", to.URL(), way.more)
		}
		b.Run(way.name, func(b *testing.B) { tracedJobs(b, traces) })
		if way.name == "deaf" {
			close(hang)
		}
		to.Close()
	}
}

// tracedJobs runs b.N jobs.
func tracedJobs(b *testing.B, traces string) {
	b.Helper()
	text := fmt.Sprintf("http: {listen: '127.0.0.1:0'}\nqueue: {memory: true}\ngrace: 1s\n%spools:\n  one: {command: [%q], task: echo, workers: {min: 1, max: 1}}\n", traces, self(b))
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
	url := "http://" + d.Addr().String() + "/v1/pools/one/jobs?wait=1m"
	if err := jobs(client, url, 500); err != nil { // all is warm
		b.Fatal(err)
	}
	before := processorTime(b)
	b.ResetTimer()
	if err := jobs(client, url, b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	client.CloseIdleConnections()
	d.Stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// jobs sends n jobs by 16 callers and waits for them.
func jobs(client *http.Client, url string, n int) error {
	var all sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, 16)
	call := func() error {
		for next.Add(1) <= int64(n) {
			a, err := client.Post(url, "application/octet-stream", strings.NewReader("x"))
			if err != nil {
				return err
			}
			_, _ = io.Copy(io.Discard, a.Body) // one byte
			a.Body.Close()
			if a.StatusCode != http.StatusOK {
				return fmt.Errorf("a job is answered with %s", a.Status)
			}
		}
		return nil
	}
	for i := range errs {
		all.Go(func() { errs[i] = call() })
	}
	all.Wait()
	return errors.Join(errs...)
}
