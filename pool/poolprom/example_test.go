package poolprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/pool/poolprom"
)

func Example() {
	images, err := pool.New(pool.Config{Name: "images", Max: 4})
	if err != nil {
		panic(err)
	}
	defer images.Close()
	collector, err := poolprom.New(images)
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		panic(err)
	}
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	scale := pool.NewFunc(images.With(pool.Options{Name: "scale"}), func(_ context.Context, n int) (int, error) { return n / 2, nil })
	if _, err := scale.Call(context.Background(), 640); err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `outcome="ok"`) {
			fmt.Print(line)
		}
	}
	// Output:
	// bullpen_pool_tasks_total{outcome="ok",pool="images",task="scale"} 1
	// bullpen_pool_tasks_total{outcome="ok",pool="images",task="task"} 0
}

// A pool that replaces another one of its name takes over its series.
func ExampleCollector_Remove() {
	collector, err := poolprom.New()
	if err != nil {
		panic(err)
	}
	for range 2 {
		p, err := pool.New(pool.Config{Name: "images"})
		if err != nil {
			panic(err)
		}
		if err := collector.Add(p); err != nil {
			panic(err)
		}
		if err := p.Close(); err != nil {
			panic(err)
		}
		collector.Remove(p)
	}
	fmt.Println("replaced")
	// Output: replaced
}
