package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/bench/internal/cell"
	"github.com/bullpen-run/bullpen/process"
)

// script is the worker, and the mark by which its processes are found.
const script = "pykind.py"

// sampleEvery is how often the memory of the workers is looked at.
const sampleEvery = 500 * time.Millisecond

// kinds are what the workers of each kind import.
var kinds = [][]string{
	{"json"}, {"decimal"}, {"sqlite3"}, {"csv", "statistics"}, {"xml.etree.ElementTree"},
	{"email.message", "smtplib"}, {"http.client", "ssl"}, {"zoneinfo"}, {"asyncio"}, {"multiprocessing"},
	{"json", "sqlite3"}, {"decimal", "fractions"}, {"zipfile", "tarfile"}, {"hashlib", "hmac"}, {"html.parser", "urllib.request"},
	{"logging.config"}, {"unittest.mock"}, {"ast", "inspect"}, {"xmlrpc.client"}, {"json", "decimal", "sqlite3", "asyncio"},
}

// way is one way of reclaiming.
type way struct {
	id, title string
	idle      time.Duration
	workers   int // of the budget; 0 for none
}

var ways = []way{
	{"none", "no reclaim: workers stay for ever", -1, 0},
	{"idle", "idle timeout of 5 s", 5 * time.Second, 0},
	{"budget-10", "budget of 10 workers, no timeout", -1, 10},
	{"budget-5", "budget of 5 workers, no timeout", -1, 5},
}

// figures are what one way gives. Memory is the sum over all workers, in MiB.
type figures struct {
	Way         string        `json:"way"`
	Title       string        `json:"title"`
	Load        string        `json:"load_before"`
	Others      float64       `json:"others_before_percent"`
	Tasks       int           `json:"tasks"`
	Failed      int           `json:"failed"`
	Starts      uint64        `json:"starts"`
	Reclaimed   uint64        `json:"reclaimed"`
	MeanRSS     float64       `json:"mean_rss_mb"`
	PeakRSS     float64       `json:"peak_rss_mb"`
	MeanPSS     float64       `json:"mean_pss_mb"`
	PeakPSS     float64       `json:"peak_pss_mb"`
	MeanWorkers float64       `json:"mean_workers"`
	PeakWorkers int           `json:"peak_workers"`
	P50         time.Duration `json:"p50_ns"`
	P99         time.Duration `json:"p99_ns"`
	Max         time.Duration `json:"max_ns"`
	MeanStart   time.Duration `json:"mean_start_ns"`
	Samples     []sample      `json:"samples"`
}

// sample is the sum over all workers at one moment.
type sample struct {
	At      time.Duration `json:"at_ns"`
	Workers int           `json:"workers"`
	RSS     float64       `json:"rss_mb"`
	PSS     float64       `json:"pss_mb"`
}

// measure makes a pool of each kind, lets tasks arrive, and looks at the memory.
func (f *figures) measure(ctx context.Context, o options, w way, worker []string) (err error) {
	var budget *process.Budget
	if w.workers > 0 {
		if budget, err = process.NewBudget(process.BudgetConfig{Workers: w.workers}); err != nil {
			return err
		}
	}
	var pools []*process.Pool
	defer func() {
		for _, p := range pools {
			err = errors.Join(err, p.Close())
		}
	}()
	for i, modules := range kinds {
		p, err := process.New(process.Config{
			Name: fmt.Sprint("kind-", i), Command: append(slices.Clone(worker), modules...), Max: 1, Idle: w.idle, Budget: budget,
		})
		if err != nil {
			return err
		}
		pools = append(pools, p)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { f.watch(done) }) // ends when the last task has
	times, failed := load(ctx, o, pools)
	close(done)
	watch.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.sum(times, failed, pools, budget)
	return nil
}

// load hands tasks of random kinds over at random times, whether earlier ones
// have ended or not, and gives how long each took.
func load(ctx context.Context, o options, pools []*process.Pool) (times []time.Duration, failed int) {
	r := rand.New(rand.NewPCG(o.seed, 0))
	var mu sync.Mutex
	var all sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	begin := time.Now()
	for at := time.Duration(0); at < o.span && ctx.Err() == nil; at += time.Duration(r.ExpFloat64() * float64(o.gap)) {
		p := pools[pickKind(r)]
		timer.Reset(time.Until(begin.Add(at)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			continue
		}
		due := begin.Add(at)
		all.Go(func() { // ends with its task
			_, err := p.Execute(ctx, bullpen.Task{Name: "work"})
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			times = append(times, took)
			if err != nil {
				failed++
			}
		})
	}
	all.Wait()
	return times, failed
}

// pickKind draws a kind: the n-th most frequent one comes 1/n as often as the
// first.
func pickKind(r *rand.Rand) int {
	total := 0.0
	for i := range kinds {
		total += 1 / float64(i+1)
	}
	x := r.Float64() * total
	for i := range kinds {
		if x -= 1 / float64(i+1); x < 0 {
			return i
		}
	}
	return len(kinds) - 1
}

// watch takes samples until done is closed.
func (f *figures) watch(done <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	begin := time.Now()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		s := sample{At: time.Since(begin)}
		for _, pid := range cell.Children(script) {
			one, err := cell.MemoryOf([]int{pid})
			if err != nil {
				continue // it has ended just now
			}
			s.Workers++
			s.RSS += one.Metrics["rss_mb"]
			s.PSS += one.Metrics["pss_mb"]
		}
		f.Samples = append(f.Samples, s)
	}
}

// sum makes the figures of what was seen.
func (f *figures) sum(times []time.Duration, failed int, pools []*process.Pool, budget *process.Budget) {
	f.Tasks, f.Failed = len(times), failed
	slices.Sort(times)
	if n := len(times); n > 0 {
		f.P50, f.P99, f.Max = times[n/2], times[n*99/100], times[n-1]
	}
	for _, s := range f.Samples {
		n := float64(len(f.Samples))
		f.MeanRSS += s.RSS / n
		f.MeanPSS += s.PSS / n
		f.MeanWorkers += float64(s.Workers) / n
		f.PeakRSS, f.PeakPSS, f.PeakWorkers = max(f.PeakRSS, s.RSS), max(f.PeakPSS, s.PSS), max(f.PeakWorkers, s.Workers)
	}
	var started time.Duration
	var ready uint64
	for _, p := range pools {
		s := p.Stats()
		f.Starts += s.Started
		started += s.StartTime.Sum
		ready += s.StartTime.Count
	}
	if ready > 0 {
		f.MeanStart = started / time.Duration(ready)
	}
	if budget != nil {
		f.Reclaimed = budget.Stats().Reclaimed
	}
}
