package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/process"
)

// run is one run of bullpen map. A feeder reads tasks and submits them to the pool;
// outcomes pass through the flow to the one goroutine that writes.
type run struct {
	options *options
	pool    level.Pool
	flow    *flow
	out     *writer
	log     *joblog // nil without --joblog
	screen  *screen
	timed   bool // record when each task began
	begun   time.Time

	// Used only by the writer.
	ring     []*item // with --keep-order: ended items, by position
	next     int64   // position to be written next
	halted   bool    // stopped by --halt
	hinted   bool    // the advice for programs that buffer their output was shown
	outcomes map[string]int64
	written  int   // items to release
	bytes    int64 // bytes to release

	ended, failed, skipped, notRun atomic.Int64

	exitedWell atomic.Bool // a worker with the lines protocol exited by itself with status 0

	once    sync.Once          // for stop
	stopped chan struct{}      // closed when the pool has been stopped early
	abort   context.CancelFunc // turns Stop into Close

	mu    sync.Mutex
	code  int   // guarded by mu
	cause error // guarded by mu
}

// fail ends the run early: running tasks are finished, others are not started. Only
// the first cause counts.
func (r *run) fail(code int, err error) {
	r.mu.Lock()
	if r.code == 0 {
		r.code, r.cause = code, err
	}
	r.mu.Unlock()
	r.stop()
}

// stop ends the run early. It does not block.
func (r *run) stop() {
	r.once.Do(func() {
		r.flow.stop()
		ctx, cancel := context.WithCancel(context.Background())
		r.mu.Lock()
		r.abort = cancel
		r.mu.Unlock()
		go func() { // ends with the pool; finish waits for it
			defer close(r.stopped)
			defer cancel()
			_ = r.pool.Stop(ctx) // finish calls it again
		}()
	})
}

// close aborts running tasks.
func (r *run) close() {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.abort()
}

// do runs all tasks and returns the exit status.
func (r *run) do(in source) int {
	r.begun = time.Now()
	quit := make(chan struct{})
	var helpers sync.WaitGroup
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	// A closed pipe must appear as a write error, so that the log can be completed
	// first. The signal is caught, not ignored, because workers would inherit that.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	helpers.Go(func() { r.heed(sigs, quit) })              // ends with quit
	helpers.Go(func() { r.screen.follow(r.status, quit) }) // ends with quit
	if r.options.protocol == process.Lines {
		events := r.pool.Events(0)
		helpers.Go(func() { r.watch(events) }) // ends with the pool
	}
	f := &feeder{run: r}
	go f.feed(in) // ends with the input; after the run is over, when its read returns
	r.write()
	r.finish()
	close(quit)
	helpers.Wait()
	signal.Stop(sigs)
	signal.Stop(pipe)
	return r.conclude()
}

// heed handles signals: the first finishes running tasks, the second aborts them. A
// third has its default effect.
func (r *run) heed(sigs chan os.Signal, quit chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-quit:
			return
		case s := <-sigs:
			if n == 0 {
				r.screen.print(fmt.Sprintf("bullpen: %v: finishing running tasks; interrupt again to abort them\n", s))
				r.fail(exitInterrupted, nil)
				continue
			}
			r.screen.print(fmt.Sprintf("bullpen: %v: aborting\n", s))
			signal.Stop(sigs)
			r.close()
		}
	}
}

// watch detects workers that print more lines than they were given. From the first
// extra line on, their results belong to the wrong tasks.
func (r *run) watch(events iter.Seq[level.Event]) {
	for e := range events {
		if e.Kind == level.Ended && e.Cause == process.ByExit.String() && e.Text == "exit code 0" {
			r.exitedWell.Store(true)
		}
		if errors.Is(e.Err, process.ErrExtraLine) {
			r.fail(exitFailed, fmt.Errorf("worker %s: %s: with --protocol lines a worker must answer each line with exactly one line; "+
				"results of this worker may belong to other tasks", e.Worker, strings.TrimPrefix(e.Text, "protocol: ")))
		}
	}
}

// write writes ended items until the run has ended.
func (r *run) write() {
	if r.options.keep {
		r.ring = make([]*item, r.options.ahead())
	}
	var batch []*item
	for {
		if batch = r.flow.take(batch, false); len(batch) == 0 {
			runtime.Gosched() // often more items are about to end, and can be written together
			if batch = r.flow.take(batch, false); len(batch) == 0 {
				r.flush()
				if batch = r.flow.take(batch, true); len(batch) == 0 {
					return
				}
			}
		}
		for _, it := range batch {
			if !it.final && it.attempts <= r.options.retries && again(it.err) {
				r.submit(it)
				continue
			}
			r.settle(it)
		}
		clear(batch)
		r.flow.release(r.written, r.bytes)
		r.written, r.bytes = 0, 0
	}
}

// settle handles the final outcome of an item.
func (r *run) settle(it *item) {
	r.judge(it)
	if !r.options.keep {
		r.emit(it)
		return
	}
	r.ring[it.position%int64(len(r.ring))] = it
	for {
		at := &r.ring[r.next%int64(len(r.ring))]
		if *at == nil {
			return
		}
		r.emit(*at)
		*at = nil
		r.next++
	}
}

// judge counts an outcome, reports a failure, and stops the run if required.
func (r *run) judge(it *item) {
	if it.err == nil {
		if it.skip {
			r.skipped.Add(1)
			return
		}
		r.checkHalt(progress{failed: r.failed.Load(), ended: r.ended.Add(1)})
		return
	}
	if _, started := bullpen.OutcomeOf(it.err); !started {
		switch {
		case errors.Is(it.err, bullpen.ErrStart):
			r.notRun.Add(1)
			r.fail(exitStart, it.err)
			return
		case errors.Is(it.err, bullpen.ErrUnknownTask):
			r.notRun.Add(1)
			r.fail(exitUsage, it.err)
			return
		case errors.Is(it.err, bullpen.ErrClosed):
			r.notRun.Add(1)
			return
		}
	}
	r.outcomes[it.outcome()]++
	ended, failed := r.ended.Add(1), r.failed.Add(1)
	killed := r.halted && r.options.halt.now && it.outcome() == bullpen.Canceled.String()
	if r.out.broken == nil && !killed { // otherwise this run killed the task: its output is closed, or --halt applies
		r.screen.print(r.failure(it))
	}
	r.checkHalt(progress{failed: failed, ended: ended})
}

// checkHalt stops the run if --halt requires it.
func (r *run) checkHalt(p progress) {
	h := r.options.halt
	if h.what == "" || r.halted {
		return
	}
	p.total = -1
	if read, all := r.flow.seen(); all {
		p.total = read - r.skipped.Load()
	}
	if !h.reached(p) {
		return
	}
	r.halted = true
	r.stop()
	if h.now {
		r.close()
	}
}

// ran reports whether an item has a result to write.
func (it *item) ran() bool {
	switch it.outcome() {
	case wordClosed, wordStart, "unknown task":
		return false
	}
	return !it.skip
}

// emit writes an item and counts it as finished.
func (r *run) emit(it *item) {
	r.written++
	r.bytes += it.bytes
	if !it.ran() {
		return
	}
	err := r.out.write(it)
	if it.err == nil && len(it.stderr) > 0 && r.options.output != "json" {
		if r.screen.joint {
			err = errors.Join(err, r.out.flush()) // on a shared terminal, the result comes first
		}
		r.spill(it.stderr)
	}
	if err == nil && r.log != nil {
		err = r.log.add(it)
	}
	r.failWrite(err)
}

// flush writes the buffered results, then the log.
func (r *run) flush() {
	err := r.out.flush()
	if err == nil && r.log != nil {
		err = r.log.flush()
	}
	r.failWrite(err)
}

// failWrite ends the run when results cannot be written. It aborts running tasks,
// because their results would be lost too.
func (r *run) failWrite(err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, syscall.EPIPE):
		r.fail(exitPipe, nil)
	default:
		r.fail(exitFailed, fmt.Errorf("cannot write results: %w", err))
	}
	r.close()
}

// finish closes the pool and completes the output.
func (r *run) finish() {
	r.stop()
	<-r.stopped
	err := r.pool.Close() // the pool has ended: Close only reports what is stuck
	if r.log != nil {
		if e := r.log.close(); e != nil && !errors.Is(err, os.ErrClosed) {
			err = errors.Join(err, fmt.Errorf("--joblog: %w", e))
		}
	}
	if err != nil {
		r.fail(exitFailed, err)
	}
}
