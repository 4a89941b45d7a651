// Command batch measures what it costs to count jobs together: the same jobs on the
// embedded store, as a batch and without, in turn. It tells the throughput of
// enqueuing and of working off, how long after the end of the last job its callback
// starts, and the memory. Linux only.
//
//	go run ./cmd/batch                     # 100 000 jobs, 5 rounds
//	go run ./cmd/batch -jobs 20000 -rounds 2
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// round is what one round has measured.
type round struct {
	Batch   bool    `json:"batch"`
	Enqueue float64 `json:"enqueue_per_s"`
	Work    float64 `json:"work_per_s"`
	// The processor time of a job, of all of this process.
	EnqueueCPU float64 `json:"enqueue_cpu_us"`
	WorkCPU    float64 `json:"work_cpu_us"`
	// Callback is from when the last outcome was durable, Behind from when the last
	// handler returned, both to the start of the callback.
	Callback float64 `json:"callback_ms,omitempty"`
	Behind   float64 `json:"behind_ms,omitempty"`
	Heap     float64 `json:"heap_mb"`
}

// report is what is kept of a run.
type report struct {
	Command string          `json:"command"`
	Date    string          `json:"date"`
	Machine machine.Machine `json:"machine"`
	Jobs    int             `json:"jobs"`
	Rounds  []round         `json:"rounds"`
}

func main() {
	jobs := flag.Int("jobs", 100_000, "how many jobs")
	rounds := flag.Int("rounds", 5, "how often each way is taken")
	out := flag.String("out", "", "folder for the results; none prints them only")
	flag.Parse()
	if err := run(*jobs, *rounds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "batch:", err)
		os.Exit(1)
	}
}

func run(jobs, rounds int, out string) error {
	r := report{
		Command: "go run ./cmd/batch " + strings.Join(os.Args[1:], " "), Date: time.Now().UTC().Format(time.DateOnly),
		Machine: machine.Describe(), Jobs: jobs,
	}
	for n := range 2 * rounds {
		one, err := measure(jobs, (n+n/2)%2 == 1) // which is first changes from round to round
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "batch %-5t enqueue %6.0f/s  work %6.0f/s  callback %6.2f ms  heap %6.1f MB\n", one.Batch, one.Enqueue, one.Work, one.Callback, one.Heap)
		r.Rounds = append(r.Rounds, one)
	}
	text := r.text()
	fmt.Print(text)
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, r.Date+"-batch.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(out, "batch.md"), []byte(text), 0o644))
}

// processor is the time that this process has had of the processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// site is one queue with its worker.
type site struct {
	queue  *queue.Queue
	pool   *pool.Pool
	ran    atomic.Int64
	last   atomic.Int64 // when the last member ended, in Unix nanoseconds
	called chan time.Time
}

func open(dir string, jobs int) (*site, error) {
	s := &site{called: make(chan time.Time, 1)}
	member := func(context.Context, bullpen.Task) ([]byte, error) {
		if s.ran.Add(1) == int64(jobs) {
			s.last.Store(time.Now().UnixNano())
		}
		return nil, nil
	}
	then := func(context.Context, bullpen.Task) ([]byte, error) {
		s.called <- time.Now()
		return nil, nil
	}
	var err error
	if s.pool, err = pool.New(pool.Config{Max: 64, Handlers: map[string]bullpen.Handler{"member": member, "then": then}}); err != nil {
		return nil, err
	}
	s.queue, err = queue.Open(context.Background(), queue.Config{Store: embedded.At(dir)})
	return s, err
}

// measure enqueues jobs and works them off, on a store of their own.
func measure(jobs int, batch bool) (r round, err error) {
	dir, err := os.MkdirTemp("", "bench-batch-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	s, err := open(dir, jobs)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.queue.Close(), s.pool.Close()) }()
	ctx := context.Background()
	all := make([]job.Job, jobs)
	for i := range all {
		all[i] = job.Job{Name: "member", Payload: []byte("a payload of some forty bytes, as many are")}
	}
	begin, used := time.Now(), processor()
	var id string
	if batch {
		i, err := s.queue.EnqueueBatch(ctx, job.Batch{Then: &job.Job{Name: "then"}}, all)
		if err != nil {
			return r, err
		}
		id = i.ID
	} else if _, err := s.queue.EnqueueAll(ctx, all); err != nil {
		return r, err
	}
	r = round{
		Batch: batch, Enqueue: float64(jobs) / time.Since(begin).Seconds(),
		EnqueueCPU: float64((processor() - used).Microseconds()) / float64(jobs),
	}
	return s.workOff(ctx, r, id, jobs)
}

// workOff measures from the first hand-over until all outcomes are durable.
func (s *site) workOff(ctx context.Context, r round, id string, jobs int) (round, error) {
	work, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	begin, used := time.Now(), processor()
	go func() { worked <- s.queue.Work(work, s.pool, queue.WorkConfig{}) }() // ends with work; waited for below
	for s.queue.Stats().Ended[bullpen.OK] < uint64(jobs) {
		<-time.After(200 * time.Microsecond)
	}
	durable := time.Now()
	r.Work = float64(jobs) / durable.Sub(begin).Seconds()
	r.WorkCPU = float64((processor() - used).Microseconds()) / float64(jobs)
	if r.Batch {
		started := <-s.called
		r.Callback = max(float64(started.Sub(durable).Microseconds())/1e3, 0)
		r.Behind = float64(started.UnixNano()-s.last.Load()) / 1e6
		i, err := s.queue.WaitBatch(ctx, id)
		if err == nil && i.OK != jobs {
			err = fmt.Errorf("%d of %d jobs are counted", i.OK, jobs)
		}
		if err != nil {
			stop()
			return r, errors.Join(err, <-worked)
		}
	}
	stop()
	err := <-worked
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Heap = float64(m.HeapAlloc) / 1e6
	return r, err
}

// text gives the report for people.
func (r *report) text() string {
	of := func(batch bool, value func(round) float64) []float64 {
		var all []float64
		for _, one := range r.Rounds {
			if one.Batch == batch {
				all = append(all, value(one))
			}
		}
		slices.Sort(all)
		return all
	}
	show := func(v []float64, format string) string {
		return fmt.Sprintf(format+" ("+format+".."+format+")", v[len(v)/2], v[0], v[len(v)-1])
	}
	enqueue, work := func(o round) float64 { return o.Enqueue }, func(o round) float64 { return o.Work }
	heap := func(o round) float64 { return o.Heap }
	callback := of(true, func(o round) float64 { return o.Callback })
	behind := of(true, func(o round) float64 { return o.Behind })
	enqueueCPU, workCPU := func(o round) float64 { return o.EnqueueCPU }, func(o round) float64 { return o.WorkCPU }
	cost := func(value func(round) float64) float64 {
		with, without := of(true, value), of(false, value)
		return 100 * (1 - with[len(with)/2]/without[len(without)/2])
	}
	more := func(value func(round) float64) float64 {
		with, without := of(true, value), of(false, value)
		return 100 * (with[len(with)/2]/without[len(without)/2] - 1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Jobs that are counted together: %s\n\n", r.Date)
	fmt.Fprintf(&b, "`%s`: %d jobs without work of their own on the embedded store, as a batch and without, in turn, %d rounds; medians, in brackets the least and the most. Raw figures: %s-batch.json.\n\n", strings.TrimSpace(r.Command), r.Jobs, len(r.Rounds)/2, r.Date)
	fmt.Fprintf(&b, "Machine: %s, %d processors, Linux %s. Load average before: %s.\n\n", r.Machine.Processor, r.Machine.Processors, r.Machine.Kernel, r.Machine.Load)
	b.WriteString("| | without | as a batch | cost |\n|---|---|---|---|\n")
	fmt.Fprintf(&b, "| enqueued, jobs/s | %s | %s | %.1f %% |\n", show(of(false, enqueue), "%.0f"), show(of(true, enqueue), "%.0f"), cost(enqueue))
	fmt.Fprintf(&b, "| worked off, outcomes durable, jobs/s | %s | %s | %.1f %% |\n", show(of(false, work), "%.0f"), show(of(true, work), "%.0f"), cost(work))
	fmt.Fprintf(&b, "| processor time to enqueue, µs a job | %s | %s | %.1f %% |\n", show(of(false, enqueueCPU), "%.1f"), show(of(true, enqueueCPU), "%.1f"), more(enqueueCPU))
	fmt.Fprintf(&b, "| processor time to work off, µs a job | %s | %s | %.1f %% |\n", show(of(false, workCPU), "%.1f"), show(of(true, workCPU), "%.1f"), more(workCPU))
	fmt.Fprintf(&b, "| heap afterwards, MB | %s | %s | |\n", show(of(false, heap), "%.1f"), show(of(true, heap), "%.1f"))
	fmt.Fprintf(&b, "| last outcome durable to the start of the callback, ms (asked: 100) | | %s | |\n", show(callback, "%.1f"))
	fmt.Fprintf(&b, "| end of the last handler to the same, ms | | %s | |\n", show(behind, "%.1f"))
	return b.String()
}
