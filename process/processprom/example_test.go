//go:build unix

package processprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/process/processprom"
)

func Example() {
	thumbnails, err := process.New(process.Config{Name: "thumbnails", Command: []string{"cat"}, Protocol: process.Lines, Max: 4})
	if err != nil {
		panic(err)
	}
	defer thumbnails.Close()
	collector, err := processprom.New(thumbnails)
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		panic(err)
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	if _, err := thumbnails.Execute(context.Background(), bullpen.Task{Payload: []byte("a line")}); err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `outcome="ok"`) {
			fmt.Print(line)
		}
	}
	// Output: bullpen_process_tasks_total{outcome="ok",pool="thumbnails"} 1
}

// A pool with another configuration takes over the series of the one that it
// replaces.
func ExampleCollector_Replace() {
	collector, err := processprom.New()
	if err != nil {
		panic(err)
	}
	var old *process.Pool
	for _, most := range []int{2, 4} {
		p, err := process.New(process.Config{Name: "thumbnails", Command: []string{"cat"}, Protocol: process.Lines, Max: most})
		if err != nil {
			panic(err)
		}
		defer p.Close()
		if err := collector.Replace(p); err != nil {
			panic(err)
		}
		if old != nil {
			if err := old.Drain(context.Background()); err != nil {
				panic(err)
			}
		}
		old = p
	}
	fmt.Println("replaced")
	// Output: replaced
}
