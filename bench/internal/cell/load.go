package cell

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Work is the task of a throughput experiment: handler, input and the answer
// that every reply is compared with.
type Work struct {
	Handler string
	Payload []byte
	Want    []byte
}

// NewWork makes the task of an experiment, with random input.
func NewWork(experiment string) (Work, error) {
	size, ok := map[string]int{"null4": 4, "null1k": 1 << 10, "sha1k": 1 << 10, "sha1m": 1 << 20}[experiment]
	if !ok {
		return Work{}, fmt.Errorf("experiment %q has no task", experiment)
	}
	w := Work{Handler: "null", Payload: make([]byte, size)}
	if _, err := rand.Read(w.Payload); err != nil {
		return Work{}, err
	}
	if experiment == "sha1k" || experiment == "sha1m" {
		w.Handler, w.Want = "hash", Hash(w.Payload)
	}
	return w, nil
}

// Hash is the load of the article: base64 of the SHA-512 of payload.
func Hash(payload []byte) []byte {
	sum := sha512.Sum512(payload)
	return base64.StdEncoding.AppendEncode(nil, sum[:])
}

// Check reports whether an answer is the right one.
func (w Work) Check(got []byte) error {
	if !bytes.Equal(got, w.Want) {
		return fmt.Errorf("handler %s: wrong answer of %d bytes", w.Handler, len(got))
	}
	return nil
}

func throughput(o Options, open Open) (Result, error) {
	w, err := NewWork(o.Experiment)
	if err != nil {
		return Result{}, err
	}
	p, err := open(2, 2)
	if err != nil {
		return Result{}, err
	}
	if o.Load == "batch" {
		n := 32768
		if len(w.Payload) > 64<<10 {
			n = 32
		}
		b, ok := p.(Batcher)
		if !ok {
			return Result{}, fmt.Errorf("this pool has no call for a batch")
		}
		rate, err := Rate(o.Span, 1, n, func() error { return b.CallAll(w.Handler, w.Payload, n, w.Check) })
		return rateResult(rate, "one call of "+strconv.Itoa(n)+" tasks"), err
	}
	n, err := o.Callers()
	if err != nil {
		return Result{}, err
	}
	rate, err := Rate(o.Span, n, 1, func() error {
		got, err := p.Call(w.Handler, w.Payload)
		if err != nil {
			return err
		}
		return w.Check(got)
	})
	return rateResult(rate, o.Load+" blocking callers"), err
}

func rateResult(rate float64, inFlight string) Result {
	return Result{Metrics: map[string]float64{"rate_per_s": rate}, InFlight: inFlight}
}

// counter stands in a cache line of its own, so that counting costs nothing.
type counter struct {
	n atomic.Int64
	_ [56]byte
}

// Rate lets callers goroutines run step, which does weight tasks, again and
// again, and returns tasks per second over span, after a quarter of it to warm
// up. The first error ends it.
func Rate(span time.Duration, callers, weight int, step func() error) (float64, error) {
	counts := make([]counter, callers)
	var stop atomic.Bool
	failed := make(chan error, callers)
	var wait sync.WaitGroup
	for i := range counts {
		wait.Go(func() {
			for !stop.Load() {
				if err := step(); err != nil {
					failed <- err
					return
				}
				counts[i].n.Add(int64(weight))
			}
		})
	}
	defer func() { stop.Store(true); wait.Wait() }()
	total := func() (n int64) {
		for i := range counts {
			n += counts[i].n.Load()
		}
		return n
	}
	if err := await(span/4, failed); err != nil {
		return 0, err
	}
	n, t := total(), time.Now()
	if err := await(span, failed); err != nil {
		return 0, err
	}
	return float64(total()-n) / time.Since(t).Seconds(), nil
}

// await waits for d, or for an error.
func await(d time.Duration, failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	case <-time.After(d):
		return nil
	}
}

func roundTrip(o Options, open Open) (Result, error) {
	p, err := open(2, 2)
	if err != nil {
		return Result{}, err
	}
	return RoundTrip(o.Span, func() error {
		_, err := p.Call("null", []byte("ping"))
		return err
	})
}

// RoundTrip calls step one at a time and gives percentiles of its time, after a
// quarter of span to warm up.
func RoundTrip(span time.Duration, step func() error) (Result, error) {
	var took []time.Duration
	start := time.Now()
	for last := start; last.Sub(start) < span+span/4; {
		if err := step(); err != nil {
			return Result{}, err
		}
		now := time.Now()
		if now.Sub(start) > span/4 {
			took = append(took, now.Sub(last))
		}
		last = now
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1e6 }
	return Result{
		Metrics: map[string]float64{
			"p50_us": at(0.5), "p99_us": at(0.99), "calls": float64(len(took)),
		},
		InFlight: "1",
	}, nil
}

func cold(o Options, open Open) (Result, error) {
	var took []float64
	for start := time.Now(); len(took) < 3 || (time.Since(start) < o.Span && len(took) < 15); {
		t := time.Now()
		p, err := open(2, 2)
		if err != nil {
			return Result{}, err
		}
		if _, err := p.Call("null", []byte("ping")); err != nil {
			return Result{}, err
		}
		took = append(took, time.Since(t).Seconds()*1e3)
		p.Close()
	}
	first, again := took[0], took[1:]
	slices.Sort(again)
	return Result{
		Metrics: map[string]float64{
			"first_ms": first, "again_ms": again[len(again)/2], "pools": float64(len(took)),
		},
		InFlight: "1",
	}, nil
}
