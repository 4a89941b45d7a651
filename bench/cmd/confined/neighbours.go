package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// The innocent pool: callers that hand a task over at random times, whether the
// one before has ended or not.
const (
	callers     = 2
	perSecond   = 100 // of all callers
	service     = time.Millisecond
	floodBytes  = 512 << 20   // of each of the two workers, again and again
	badLifetime = time.Second // of a fork bomb, until its task has overrun its time
)

// neighbour is what the workers of the other pool do.
type neighbour struct {
	id, title string
	task      bullpen.Task // empty: there is no other pool
	unlimited bool
}

var neighbours = []neighbour{
	{id: "neighbour/alone", title: "alone"},
	{id: "neighbour/spin", title: "two workers spin", task: bullpen.Task{Name: "spin"}},
	{id: "neighbour/fork", title: "fork bombs, for 1 s each", task: bullpen.Task{Name: "fork", Limits: bullpen.Limits{Timeout: badLifetime}}},
	{id: "neighbour/swell", title: "workers swell until they are killed", task: bullpen.Task{Name: "swell"}},
	{id: "neighbour/flood", title: "workers print 1 GB, and again", task: bullpen.Task{Name: "flood", Payload: []byte(strconv.Itoa(floodBytes))}},
	{id: "neighbour/unlimited", title: "two workers spin, no limits at all", task: bullpen.Task{Name: "spin"}, unlimited: true},
}

func neighbourPart() part {
	p := part{
		id: "neighbour", title: "(d) Bad neighbours",
		note: lines(fmt.Sprintf("A pool of 2 Go workers gets %d tasks a second at random times, each of which needs %v of a processor; latency counts from the moment at which a task was due.", perSecond, service),
			"Beside it, in the same host, another pool of 2 workers with `Limits.CPU: 0.5`, `Limits.Memory: 64 MiB`, `PIDs: 32`, and a logger.",
			"The host's growth is its highest resident size, above that at the start."),
		columns: []column{{"p50_us", "p50 µs", 0}, {"p99_us", "p99 µs", 0}, {"max_us", "most µs", 0}, {"host_growth_mb", "host grows by MB", 1},
			{"bad_tasks", "neighbour's tasks ended", 0},
			{"bad_starts", "its workers started", 0}},
	}
	for _, n := range neighbours {
		k := ours
		if n.task.Name == "" || n.unlimited {
			k = floor
		}
		p.rows = append(p.rows, row{n.id, n.title, k})
		p.cells = append(p.cells, single(n.id, func(ctx context.Context, o options, at places) (metrics, error) {
			return besides(ctx, o, at, n)
		}))
	}
	return p
}

// besides measures the innocent pool beside n.
func besides(ctx context.Context, o options, at places, n neighbour) (m metrics, err error) {
	good, err := process.New(process.Config{Name: "good", Command: []string{at.rough()}, Min: callers, Max: callers})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, good.Close()) }()
	c := process.Config{
		Name: "bad", Command: []string{at.rough()}, Min: 2, Max: 2, Grace: 10 * time.Millisecond, CloseGrace: 100 * time.Millisecond,
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), // it formats all that is printed, as a real one does
	}
	if !n.unlimited {
		c.Limits, c.PIDs = bullpen.Limits{Memory: 64 << 20, CPU: 0.5}, 32
	}
	bad, err := process.New(c)
	if err != nil {
		return nil, err
	}
	// What its workers were at when they were ended is not of interest.
	defer func() { _ = bad.Close() }()
	if err := errors.Join(good.Ready(ctx, callers), bad.Ready(ctx, 2)); err != nil {
		return nil, err
	}
	span := pick(o, 6*time.Second, time.Second)
	if _, err := offer(ctx, good, span/6); err != nil { // until all is warm
		return nil, err
	}
	before, err := forgetPeak()
	if err != nil {
		return nil, err
	}
	stop := misbehave(ctx, bad, n.task)
	took, err := offer(ctx, good, span)
	peak := resident("VmHWM")
	stop()
	if err != nil {
		return nil, err
	}
	m = metrics{"host_growth_mb": peak - before, "max_us": microseconds(quantile(took, 1)), "tasks": float64(len(took))}
	m.put("", took)
	g := good.Stats() // where the time went, the warm-up included
	for name, h := range map[string]bullpen.Histogram{"queue": g.QueueTime, "run": g.RunTime, "return": g.ReturnTime} {
		m[name+"_p50_us"], m[name+"_p99_us"] = microseconds(h.Quantile(0.5)), microseconds(h.Quantile(0.99))
	}
	s := bad.Stats()
	m["bad_tasks"], m["bad_starts"], m["lost_log_lines"] = float64(s.Total()), float64(s.Started), float64(s.LostLogLines)
	m["bad_tasks_ok"], m["bad_tasks_memory"] = float64(s.Outcomes[bullpen.OK]), float64(s.Outcomes[bullpen.Memory])
	return m, nil
}

// misbehave keeps both workers of the pool at the task until the function that it
// returns is called, which waits for them.
func misbehave(ctx context.Context, p *process.Pool, t bullpen.Task) (stop func()) {
	if t.Name == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { // ends soon after cancel
			for ctx.Err() == nil {
				_, _ = p.Execute(ctx, t) // it fails in whichever way: that is what it is for
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// offer hands tasks to the pool for as long as span, and gives how long each took
// from when it was due.
func offer(ctx context.Context, p *process.Pool, span time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	took := make([]time.Duration, 0, 2*int(span.Seconds()*perSecond)+16)
	var errs []error
	var all sync.WaitGroup
	begin := time.Now()
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(i), 0)) // the same times in every cell
		gap := func() time.Duration {
			return time.Duration(random.ExpFloat64() * float64(time.Second) * callers / perSecond)
		}
		all.Go(func() { // ends with the span
			timer := time.NewTimer(0)
			defer timer.Stop()
			for at := gap(); at < span && ctx.Err() == nil; at += gap() {
				due := begin.Add(at)
				timer.Reset(time.Until(due))
				<-timer.C
				all.Go(func() { // ends with its task
					_, err := p.Execute(ctx, bullpen.Task{Name: "busy", Payload: []byte(service.String())})
					d := time.Since(due)
					mu.Lock()
					defer mu.Unlock()
					took = append(took, d)
					if err != nil {
						errs = append(errs, err)
					}
				})
			}
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// forgetPeak makes the kernel count the highest resident size of this process
// anew, and gives the present one, in MB.
func forgetPeak() (float64, error) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, err
	}
	return resident("VmRSS"), nil
}

// resident gives a figure of /proc/self/status in MB.
func resident(name string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kb float64
		if k, _ := fmt.Sscanf(line, name+": %f kB", &kb); k == 1 {
			return kb * 1024 / 1e6
		}
	}
	return 0
}
