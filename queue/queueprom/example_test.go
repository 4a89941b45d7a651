package queueprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/queueprom"
)

func Example() {
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: queue.Memory()})
	if err != nil {
		panic(err)
	}
	defer q.Close()
	collector, err := queueprom.New(q, func() []string { return []string{"mail"} })
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		panic(err)
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	if _, err := q.Enqueue(ctx, job.Job{Queue: "mail", Name: "send"}); err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "bullpen_queue_jobs_waiting") {
			fmt.Print(line)
		}
	}
	// Output:
	// bullpen_queue_jobs_waiting{priority="high",queue="mail"} 0
	// bullpen_queue_jobs_waiting{priority="low",queue="mail"} 0
	// bullpen_queue_jobs_waiting{priority="normal",queue="mail"} 1
}
