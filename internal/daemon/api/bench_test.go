package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// instant is an executor that answers at once.
type instant struct{}

func (instant) Submit(_ context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	done(bullpen.Result{Payload: t.Payload, Stats: bullpen.Stats{Worker: "w-1", PeakMemory: 1 << 20}}, nil)
	return nil
}
func (instant) Capacity() int                  { return 64 }
func (instant) Guarantees() bullpen.Guarantees { return bullpen.Guarantees{} }
func (instant) Drain(context.Context) error    { return nil }
func (instant) Stop(context.Context) error     { return nil }
func (instant) Close() error                   { return nil }

// fast is a testDaemon whose queue "fast" is worked off at once.
type fast struct{ *testDaemon }

func (f fast) Complete(_ string, j job.Job) (job.Job, error) { return j, nil }
func (f fast) Run(ctx context.Context, _ string, t bullpen.Task) (string, bullpen.Result, error) {
	return "t-1", bullpen.Result{Payload: t.Payload, Stats: bullpen.Stats{Worker: "w-1"}}, nil
}

func newFast(b *testing.B) (fast, *API) {
	b.Helper()
	h := fast{newTestDaemon(b)}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { // ends with ctx; the cleanup waits for it
		if err := h.queue.Work(ctx, instant{}, queue.WorkConfig{Queue: "fast"}); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		cancel()
		work.Wait()
	})
	a, err := New(Config{Backend: h})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Close)
	return h, a
}

// sink is a writer of answers that keeps nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

// body is a request's body that is read again and again.
type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.Len() == 0 && err == nil {
		err = io.EOF // as net/http does
	}
	return n, err
}

func benchmarkRequest(b *testing.B, h http.Handler, path string) {
	b.Helper()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		payload := []byte(`{"hello":"world"}`)
		in := &body{}
		r, err := http.NewRequestWithContext(context.Background(), "POST", "http://127.0.0.1:8650"+path, in)
		if err != nil {
			b.Error(err)
			return
		}
		r.ContentLength = int64(len(payload))
		r.Header["Content-Type"] = []string{"application/json"}
		r.Header["User-Agent"] = []string{"bench"}
		w := &sink{header: http.Header{}}
		for p.Next() {
			in.Reset(payload)
			clear(w.header)
			w.status = 0
			h.ServeHTTP(w, r)
			if w.status != 0 {
				b.Errorf("the status is %d", w.status)
				return
			}
		}
	})
}

// BenchmarkQueue is what a job costs without an API, to be taken off.
func BenchmarkQueue(b *testing.B) {
	h, _ := newFast(b)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, _, err := h.queue.Run(context.Background(), job.Job{Queue: "fast", Payload: []byte(`{"hello":"world"}`), Meta: map[string]string{"content-type": "application/json"}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkSubmitAndWait(b *testing.B) {
	_, a := newFast(b)
	benchmarkRequest(b, a.Handler(), "/v1/pools/fast/jobs?wait=30s")
}

func BenchmarkRun(b *testing.B) {
	_, a := newFast(b)
	benchmarkRequest(b, a.Handler(), "/v1/pools/fast/run")
}

// BenchmarkBulk is one job of a bulk over HTTP.
func BenchmarkBulk(b *testing.B) {
	s := newSite(b)
	body, send := io.Pipe()
	go func() { // ends with the lines, which the request reads
		line := []byte(`{"payload":"{\"hello\":\"world\"}","task":"echo"}` + "\n")
		for range b.N {
			if _, err := send.Write(line); err != nil {
				return
			}
		}
		send.Close() // never fails
	}()
	b.ReportAllocs()
	resp := s.open(b.Context(), "POST", "/v1/pools/far/bulk", body)
	defer resp.Body.Close() // it is read
	got, err := io.ReadAll(resp.Body)
	if n := bytes.Count(got, []byte(`"state":"queued"`)); err != nil || n != b.N {
		b.Errorf("%d of %d lines, %v", n, b.N, err)
	}
}

// BenchmarkReadLine is the reading of one line of a bulk.
func BenchmarkReadLine(b *testing.B) {
	line := []byte(`{"payload":"{\"hello\":\"world\"}","task":"echo","key":"k-1","attempts":3}`)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if _, p := readLine(line, lineFields, 1<<10, now); p != nil {
			b.Fatal(p.Detail)
		}
	}
}

// BenchmarkHTTP is a job, and an ephemeral task, from 64 clients of one process
// with the server.
func BenchmarkHTTP(b *testing.B) {
	_, a := newFast(b)
	server := httptest.NewServer(a.Handler())
	b.Cleanup(server.Close)
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	for name, do := range map[string]func(context.Context) error{
		"job": func(ctx context.Context) error {
			_, _, err := c.Run(ctx, job.Job{Queue: "fast", Payload: []byte("x")})
			return err
		},
		"run": func(ctx context.Context) error {
			_, err := c.RunEphemeral(ctx, "fast", bullpen.Task{Name: "x", Payload: []byte("x")})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := do(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
