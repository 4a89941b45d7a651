package poolhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/pool/poolhttp"
)

// ask shows the answer of h to one request.
func ask(h http.Handler) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
}

// An existing handler in a lane of ten.
func ExampleHandler() {
	p, err := pool.New(pool.Config{Max: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := p.Lane(pool.LaneConfig{Name: "reports", Limit: 10, Queue: 50, Overflow: pool.Reject, Timeout: 5 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	report := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the report") })
	h, err := poolhttp.Handler(lane, report)
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(h)
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: 200  the report
}

// A request that is not started within 20 ms is refused, in the words of the
// service.
func ExampleConfig_Handler() {
	p, err := pool.New(pool.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := p.Lane(pool.LaneConfig{Name: "reports", Limit: 1, Overflow: pool.Reject})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := poolhttp.Config{
		Target: lane, Wait: 20 * time.Millisecond, RetryAfter: 5 * time.Second,
		Answer: func(w http.ResponseWriter, _ *http.Request, status int, _ error) {
			w.WriteHeader(status)
			fmt.Fprint(w, "please come back later")
		},
	}.Handler(http.NotFoundHandler())
	if err != nil {
		fmt.Println(err)
		return
	}
	end := make(chan struct{})
	if err := lane.Go(context.Background(), func() { <-end }); err != nil {
		fmt.Println(err)
	}
	ask(h)
	close(end)
	if err := p.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: 503 5 please come back later
}
