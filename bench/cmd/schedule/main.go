// Command schedule measures how late many schedules fire, and what they cost: ticks
// that are spread over a period, ticks of all schedules in the same second, and the
// memory of the program. The jobs lie in a folder of their own, with every confirm on
// the disk; nobody works on them. Linux only.
//
//	go run ./cmd/schedule          # 10 000 schedules, about four minutes
//	go run ./cmd/schedule -quick   # 2 000 schedules, half a minute of spread ticks
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

type options struct {
	count    int
	every    time.Duration
	span     time.Duration
	patience time.Duration
	out      string
	quick    bool
}

// figures are those of one experiment.
type figures struct {
	Name, Title   string
	Schedules     int
	Ticks         uint64
	PerSecond     float64
	P50, P99, Max time.Duration
	// Heap and RSS are what the schedules take, in bytes: with them and without.
	HeapBefore, HeapAfter uint64
	RSSBefore, RSSAfter   int64
	PutTook               time.Duration
	Load                  string
	Others                float64
	Missed, Failed        uint64
}

// run is all that is kept of a run.
type run struct {
	Date    time.Time
	Command string
	Machine machine.Machine
	Figures []figures
}

func main() {
	var o options
	flag.IntVar(&o.count, "n", 10_000, "how many schedules")
	flag.DurationVar(&o.every, "every", 10*time.Second, "time from tick to tick, where ticks are spread")
	flag.DurationVar(&o.span, "span", time.Minute, "how long spread ticks are measured")
	flag.DurationVar(&o.patience, "patience", 10*time.Second, "how long to wait, before each experiment, for other programs to leave the processors")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick ../.cache/bench/results)")
	flag.BoolVar(&o.quick, "quick", false, "2 000 schedules, 20 s, no patience")
	flag.Parse()
	if o.quick {
		o.count, o.span, o.patience = 2000, 20*time.Second, 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedule:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o options) error {
	if o.count < 1 || o.every < 100*time.Millisecond || o.span <= 0 {
		return errors.New("-n and -span must be above zero, and -every 100ms at least")
	}
	if o.out == "" {
		o.out = "results"
		if o.quick {
			o.out = filepath.Join("..", ".cache", "bench", "results")
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	r := &run{
		Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/schedule"}, os.Args[1:]...), " "), Machine: machine.Describe(),
	}
	for _, e := range []experiment{
		{"spread", fmt.Sprintf("every %v, spread", o.every), o.spread},
		{"burst", "all in the same second", o.burst},
	} {
		f := figures{Name: e.name, Title: e.title, Schedules: o.count, Load: machine.Load(), Others: machine.Others(ctx, o.patience)}
		fmt.Fprintln(os.Stderr, "measuring:", e.title)
		if err := o.measure(ctx, e, &f); err != nil {
			return fmt.Errorf("%s: %w", e.title, err)
		}
		r.Figures = append(r.Figures, f)
	}
	return r.save(o.out)
}

// experiment puts schedules, and says until when their ticks count.
type experiment struct {
	name, title string
	put         func(ctx context.Context, q *queue.Queue) (until time.Time, err error)
}

func (o options) measure(ctx context.Context, e experiment, f *figures) error {
	dir, err := os.MkdirTemp("", "schedules")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(dir)})
	if err != nil {
		return err
	}
	defer q.Close()
	fires, stop := context.WithCancel(ctx)
	fired := make(chan error, 1)
	go func() { fired <- q.FireSchedules(fires) }() // ends with fires; waited for below
	defer func() { stop(); <-fired }()
	f.HeapBefore, f.RSSBefore = memory()
	began := time.Now()
	until, err := e.put(ctx, q)
	if err != nil {
		return err
	}
	f.PutTook = time.Since(began)
	if err := known(ctx, q, o.count); err != nil {
		return err
	}
	f.HeapAfter, f.RSSAfter = memory()
	if time.Now().After(until) {
		return errors.New("the schedules were put too late: take fewer, or wait for a quieter machine")
	}
	before := q.Stats().Schedules
	from := time.Now()
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after := q.Stats().Schedules
	late := after.Late.Minus(&before.Late)
	f.Ticks, f.Missed, f.Failed = late.Count, after.Missed, after.Failed
	f.PerSecond = float64(late.Count) / time.Since(from).Seconds()
	f.P50, f.P99, f.Max = late.Quantile(0.5), late.Quantile(0.99), late.Quantile(1)
	return nil
}

// spread puts schedules one after the other, so that their ticks are as far from
// each other.
func (o options) spread(ctx context.Context, q *queue.Queue) (time.Time, error) {
	gap := o.every / time.Duration(o.count)
	begin := time.Now()
	err := o.putAll(ctx, q, func(i int) job.Schedule {
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(i) * gap))):
		case <-ctx.Done():
		}
		return job.Schedule{Every: o.every}
	})
	return time.Now().Add(o.span), err
}

// burst puts schedules that are all due at the next full minute but one.
func (o options) burst(ctx context.Context, q *queue.Queue) (time.Time, error) {
	at := time.Now().UTC().Add(90 * time.Second).Truncate(time.Minute)
	rule := fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
	err := o.putAll(ctx, q, func(int) job.Schedule { return job.Schedule{Cron: rule} })
	return at.Add(10 * time.Second), err
}

// putters is how many schedules are put at a time.
const putters = 64

func (o options) putAll(ctx context.Context, q *queue.Queue, make1 func(i int) job.Schedule) error {
	var mu sync.Mutex
	next, first := 0, error(nil)
	var all sync.WaitGroup
	for range putters {
		all.Go(func() { // ends when all are put; waited for below
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil || i >= o.count
				mu.Unlock()
				if stop {
					return
				}
				s := make1(i)
				s.Name, s.Job = fmt.Sprintf("schedule.%d", i), job.Job{Name: "task", Payload: []byte("some bytes of a payload")}
				if _, err := q.PutSchedule(ctx, s); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return first
}

// known waits until the schedules are known to what fires them.
func known(ctx context.Context, q *queue.Queue, n int) error {
	for end := time.Now().Add(time.Minute); q.Stats().Schedules.Known < n; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d schedules are known after a minute", q.Stats().Schedules.Known, n)
		}
	}
	return nil
}

// memory gives what is in use of the heap, and the resident memory.
func memory() (heap uint64, rss int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident int64
		if _, err := fmt.Sscan(string(b), &size, &resident); err == nil {
			rss = resident * int64(os.Getpagesize())
		}
	}
	return m.HeapAlloc, rss
}

func (r *run) save(out string) error {
	raw := r.Date.Format("2006-01-02") + "-schedule.json"
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, raw), append(b, '\n'), 0o644); err != nil {
		return err
	}
	file := filepath.Join(out, "schedule.md")
	if err := os.WriteFile(file, []byte(r.text(raw)), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written:", file)
	return nil
}

func (r *run) text(raw string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# How late schedules fire: %s\n\n`%s`. Raw figures: %s. How to read this: [README](../README.md#schedules).\n\n", r.Date.Format("2006-01-02"), r.Command, raw)
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s, Linux %s. Load average before: %s. %s.\n\n",
		r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel, r.Machine.Load, runtime.Version())
	b.WriteString("| schedules | their ticks | ticks/s | late, ms: p50 | p99 | most | missed | failed | heap each, bytes | RSS of all, MiB | others, % | load |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		each := (int64(f.HeapAfter) - int64(f.HeapBefore)) / int64(f.Schedules)
		fmt.Fprintf(&b, "| %d | %s: %d | %.0f | %.1f | %.1f | %.1f | %d | %d | %d | %.1f | %.0f | %s |\n", f.Schedules, f.Title, f.Ticks, f.PerSecond,
			ms(f.P50), ms(f.P99), ms(f.Max), f.Missed, f.Failed, each, float64(f.RSSAfter-f.RSSBefore)/(1<<20), f.Others, f.Load)
	}
	return b.String()
}
