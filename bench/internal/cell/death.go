package cell

import (
	"fmt"
	"syscall"
	"time"
)

// answer is how one call ended.
type answer struct {
	err  error
	when time.Time
}

// start calls in a goroutine, which ends with the call. The channel takes the
// answer without a reader, since some systems never give one.
func start(p Pool, handler, payload string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		_, err := p.Call(handler, []byte(payload))
		c <- answer{err, time.Now()}
	}()
	return c
}

func starts(p Pool, n int, handler, payload string) []<-chan answer {
	all := make([]<-chan answer, n)
	for i := range all {
		all[i] = start(p, handler, payload)
	}
	return all
}

// good waits until limit and counts the calls that ended well.
func good(calls []<-chan answer, limit <-chan time.Time) (n int) {
	for _, c := range calls {
		select {
		case a := <-c:
			if a.err == nil {
				n++
			}
		case <-limit:
			return n
		}
	}
	return n
}

func growth(open Open) (Result, error) {
	p, err := open(1, 5)
	if err != nil {
		return Result{}, err
	}
	if _, err := p.Call("null", []byte("ping")); err != nil {
		return Result{}, err
	}
	t := time.Now()
	calls := starts(p, 5, "sleep", "1s")
	n := good(calls, time.After(12*time.Second))
	took := time.Since(t)
	if n < 5 {
		return Result{}, fmt.Errorf("%d of 5 tasks ended well within 12 s", n)
	}
	return Result{
		Metrics:  map[string]float64{"five_tasks_ms": took.Seconds() * 1e3, "workers": float64(len(p.Pids()))},
		InFlight: "5",
	}, nil
}

// kill sends SIGKILL to one of two busy workers: which of the two long tasks
// answers with an error, or never, shows which was the victim.
func kill(open Open) (Result, error) {
	p, err := open(2, 2)
	if err != nil {
		return Result{}, err
	}
	r := Result{Metrics: map[string]float64{}, Notes: map[string]string{}, InFlight: "2 running, 4 queued"}
	good(starts(p, 8, "null", "ping"), time.After(2*time.Second))
	long := starts(p, 2, "sleep", "1s")
	<-time.After(200 * time.Millisecond)
	queued := starts(p, 4, "sleep", "100ms")
	<-time.After(50 * time.Millisecond)
	pids := p.Pids()
	if len(pids) == 0 {
		return r, fmt.Errorf("no worker process found")
	}
	t := time.Now()
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		return r, err
	}
	limit := time.After(5 * time.Second)
	victims := 0
	for _, c := range long {
		select {
		case a := <-c:
			if a.err != nil {
				victims++
				r.Metrics["victim_ms"] = a.when.Sub(t).Seconds() * 1e3
				r.Notes["victim"] = a.err.Error()
			}
		case <-limit:
			victims++
			r.Notes["victim"] = "no answer in 5 s"
		}
	}
	r.Metrics["neighbour_ok"] = float64(2 - max(victims, 1))
	if victims == 0 {
		r.Notes["victim"] = "both tasks ended well: the worker killed ran neither, or its task was run again"
	}
	r.Metrics["queued_ok"] = float64(good(queued, time.After(5*time.Second)))
	r.Metrics["after_ok"] = float64(good(starts(p, 4, "null", "ping"), time.After(3*time.Second)))
	r.Metrics["workers_after"] = float64(len(p.Pids()))
	return r, idleKill(open, &r)
}

// idleKill ends one of two idle workers, calls four times at once, and again half
// a second later.
func idleKill(open Open, r *Result) error {
	p, err := open(2, 2)
	if err != nil {
		return err
	}
	good(starts(p, 8, "null", "ping"), time.After(2*time.Second))
	<-time.After(100 * time.Millisecond)
	before := p.Pids()
	if len(before) == 0 {
		return fmt.Errorf("no worker process found")
	}
	// The first pool's workers may have the same parent: the newest is this pool's.
	if err := syscall.Kill(before[len(before)-1], syscall.SIGKILL); err != nil {
		return err
	}
	r.Metrics["idle_now_ok"] = float64(good(starts(p, 4, "null", "ping"), time.After(3*time.Second)))
	<-time.After(500 * time.Millisecond)
	r.Metrics["idle_later_ok"] = float64(good(starts(p, 4, "null", "ping"), time.After(3*time.Second)))
	return nil
}

func memory(open Open) (Result, error) {
	p, err := open(2, 2)
	if err != nil {
		return Result{}, err
	}
	w, err := NewWork("sha1k")
	if err != nil {
		return Result{}, err
	}
	if n := good(starts(p, 200, w.Handler, string(w.Payload)), time.After(10*time.Second)); n < 200 {
		return Result{}, fmt.Errorf("%d of 200 tasks ended well", n)
	}
	<-time.After(300 * time.Millisecond)
	return MemoryOf(p.Pids())
}
