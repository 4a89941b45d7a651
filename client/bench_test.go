//go:build unix

package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// atOnce answers every request at once, as for a task without work. It takes as
// little processor as can be, so that what is measured is the client.
func atOnce(b *testing.B) string {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { // ends with the listener, which the end of the benchmark closes and waits for
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { answerAtOnce(c) }) // ends with the connection
		}
	})
	b.Cleanup(func() { listener.Close(); all.Wait() })
	return "http://" + listener.Addr().String()
}

// answerAtOnce takes each read for a request, which those of benchmarks are.
func answerAtOnce(c net.Conn) {
	defer c.Close()
	answer := []byte("HTTP/1.1 200 OK\r\nBullpen-Job: 01JD\r\nBullpen-Ran: 0.000001\r\nContent-Type: application/octet-stream\r\n" +
		"Content-Length: 2\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\n\r\nok")
	request := make([]byte, 16<<10)
	for {
		if _, err := c.Read(request); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

func benchClient(b *testing.B) *client.Client {
	b.Helper()
	c, err := client.New(client.Config{URL: atOnce(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// reportProcessor gives the processor time of the whole process for each call:
// client and server together.
func reportProcessor(b *testing.B, since time.Duration) {
	b.Helper()
	b.ReportMetric(float64(processorTime()-since)/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRun(b *testing.B) {
	c := benchClient(b)
	b.ReportAllocs()
	begun := processorTime()
	for b.Loop() {
		if _, _, err := c.Run(b.Context(), job.Job{Queue: "p", Name: "echo", Payload: []byte("x")}); err != nil {
			b.Fatal(err)
		}
	}
	reportProcessor(b, begun)
}

func BenchmarkRunOf64Callers(b *testing.B) {
	c := benchClient(b)
	b.ReportAllocs()
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	begun := processorTime()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := c.Run(context.Background(), job.Job{Queue: "p", Name: "echo", Payload: []byte("x")}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	reportProcessor(b, begun)
}

func BenchmarkExecutorOf64Callers(b *testing.B) {
	e, err := benchClient(b).Executor("p", client.ExecutorConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	begun := processorTime()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := e.Execute(context.Background(), bullpen.Task{Name: "echo", Payload: []byte("x")}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	reportProcessor(b, begun)
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPlainHTTP is what net/http itself takes for the same.
func BenchmarkPlainHTTP(b *testing.B) {
	at := atOnce(b)
	t := &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(t.CloseIdleConnections)
	b.ReportAllocs()
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	begun := processorTime()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, at, strings.NewReader("x"))
			response, err := t.RoundTrip(r)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
	reportProcessor(b, begun)
}
