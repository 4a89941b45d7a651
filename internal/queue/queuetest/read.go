package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// byName is a handler that does what the task's name says.
func byName(g *gate) bullpen.Handler {
	return func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		switch t.Name {
		case "gate":
			return g.handle(ctx, t)
		case "fail":
			return nil, bullpen.Fail("no", false)
		case "retry":
			return nil, bullpen.Fail("later", true)
		default:
			return t.Payload, nil
		}
	}
}

func testStates(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Backoff: time.Hour}})
	g := newGate()
	c := newExecutor(8, byName(g))
	ids := map[job.State]string{}
	ids[job.Queued] = f.enqueue(job.Job{Queue: "nobody"}).ID
	f.work(f.Queue, c, queue.WorkConfig{})
	ids[job.Scheduled] = f.enqueue(job.Job{Delay: time.Hour}).ID
	ids[job.Running] = f.enqueue(job.Job{Name: "gate"}).ID
	ids[job.Retrying] = f.enqueue(job.Job{Name: "retry"}).ID
	ids[job.Done] = f.enqueue(job.Job{Name: "echo"}).ID
	ids[job.Dead] = f.enqueue(job.Job{Name: "fail"}).ID
	ids[job.Canceled] = f.enqueue(job.Job{Delay: time.Hour}).ID
	if err := f.Cancel(f.ctx(), ids[job.Canceled]); err != nil {
		f.t.Fatalf("Cancel = %v", err)
	}
	for want, id := range ids {
		i := f.state(id, want)
		if want == job.Scheduled || want == job.Retrying {
			if d := time.Until(i.At); d < 20*time.Minute || d > time.Hour {
				f.t.Errorf("a job that is %v is due in %v, want about an hour", want, d)
			}
		}
		if (i.Err != nil) != (want == job.Dead || want == job.Canceled) || i.Ended.IsZero() == want.Ended() {
			f.t.Errorf("Get of a job that is %v = %+v", want, i)
		}
	}
	for state, id := range ids {
		// A job that has ended leaves the list of those that wait a moment later.
		f.eventually(fmt.Sprintf("List of %v gives %v", state, id), func() bool {
			got := f.list(job.Filter{States: []job.State{state}})
			return len(got) == 1 && got[0].ID == id
		})
	}
	for _, newest := range []bool{false, true} {
		f.eventually("List gives all jobs", func() bool { return len(f.list(job.Filter{Newest: newest, Limit: 2})) == len(ids) })
		f.eventually("List of four states gives these", func() bool {
			got := f.list(job.Filter{States: []job.State{job.Queued, job.Running, job.Retrying, job.Canceled}, Newest: newest, Limit: 1})
			return len(got) == 4
		})
	}
	g.open()
	f.good(ids[job.Running])
}

func testList(f *fixture) {
	f.open(queue.Config{})
	var want []string
	for i := range 50 {
		j := job.Job{Queue: "a", Name: fmt.Sprint("n", i%2), Payload: fmt.Append(nil, i), Priority: job.Priority(i % 3)}
		if i%5 == 4 {
			j.Queue = "b"
		}
		want = append(want, f.enqueue(j).ID)
	}
	check := func(filter job.Filter, wanted func(i int) bool) {
		f.t.Helper()
		for _, filter.Limit = range []int{0, 1, 7, 1000} {
			var got, ids []string
			for _, i := range f.list(filter) {
				got = append(got, i.ID)
			}
			for i, id := range want {
				if wanted(i) {
					ids = append(ids, id)
				}
			}
			if !slices.Equal(got, ids) {
				f.t.Errorf("List %+v gives %d jobs, want %d in the order in which they came", filter, len(got), len(ids))
			}
		}
	}
	all := func(int) bool { return true }
	check(job.Filter{States: inQueue}, all)
	check(job.Filter{States: inQueue, Queue: "b"}, func(i int) bool { return i%5 == 4 })
	check(job.Filter{States: inQueue, Queue: "a", Name: "n1"}, func(i int) bool { return i%5 != 4 && i%2 == 1 })
	check(job.Filter{States: inQueue, Name: "none"}, func(int) bool { return false })
	c := newExecutor(4, echo)
	f.work(f.Queue, c, queue.WorkConfig{Queue: "a"})
	f.work(f.Queue, c, queue.WorkConfig{Queue: "b"})
	for _, id := range want {
		f.good(id)
	}
	over := f.list(job.Filter{States: ended, Limit: 7})
	var got []string
	for _, i := range over {
		got = append(got, i.ID)
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		f.t.Errorf("List of what is done gives %d jobs, want each of %d once", len(got), len(want))
	}
	if in := f.list(job.Filter{States: ended, Queue: "b", Limit: 3}); len(in) != 10 {
		f.t.Errorf("List of what is done in b gives %d, want 10", len(in))
	}
}

func testWait(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	f.staff(2, byName(g))
	id := f.enqueue(job.Job{Name: "gate", Payload: []byte("p")}).ID
	const many = 20
	waits := make(chan error, many)
	for range many {
		go func() { // ends with the job, or with the test
			r, err := f.Wait(f.t.Context(), id)
			if err == nil && string(r.Payload) != "p" {
				err = fmt.Errorf("the result is %q, want p", r.Payload)
			}
			waits <- err
		}()
	}
	short, cancel := context.WithTimeoutCause(f.t.Context(), 30*time.Millisecond, errOdd)
	defer cancel()
	if _, err := f.Wait(short, id); !errors.Is(err, errOdd) {
		f.t.Errorf("Wait whose context ends = %v, want the cause of its end", err)
	}
	ref, _, err := f.Run(short, job.Job{Name: "gate"})
	if !errors.Is(err, errOdd) {
		f.t.Errorf("Run whose context ends = %+v, %v, want the cause of its end", ref, err)
	}
	await(f, "it runs", g.started)
	g.open()
	for range many {
		if err := await(f, "a waiter returns", waits); err != nil {
			f.t.Errorf("Wait = %v", err)
		}
	}
	f.good(id)
	f.good(id)
}

func testWaitElsewhere(f *fixture) {
	f.open(queue.Config{})
	other := f.another()
	f.staff(2, byName(newGate()))
	for _, j := range []job.Job{{Payload: []byte("1")}, {Payload: []byte("1"), Delay: 50 * time.Millisecond}, {Name: "fail"}} {
		ref, r, err := other.Run(f.ctx(), j)
		if ref.ID == "" || (err == nil) != (j.Name == "") || string(r.Payload) != string(j.Payload) {
			f.t.Errorf("Run of %+v from another node = %+v, %q, %v", j, ref, r.Payload, err)
		}
		again, err2 := other.Wait(f.ctx(), ref.ID)
		if string(again.Payload) != string(r.Payload) || (err2 == nil) != (err == nil) {
			f.t.Errorf("Wait from another node = %q, %v, want the same", again.Payload, err2)
		}
	}
	begin, late := time.Now(), 20*time.Second
	for range 20 {
		if _, _, err := other.Run(f.ctx(), job.Job{}); err != nil {
			f.t.Errorf("Run from another node = %v", err)
		}
	}
	if d := time.Since(begin); d > late {
		f.t.Errorf("20 jobs from another node took %v, want %v at most: it hears of the ends", d, late)
	}
}

// testSeenElsewhere wants another node to see what a job says that runs for some
// time.
func testSeenElsewhere(f *fixture) {
	f.open(queue.Config{Node: "here", Lease: 3 * time.Second})
	other := f.another()
	g := newGate()
	f.staff(1, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		t.Observer.Progress(0.5, "half")
		return g.handle(ctx, t)
	})
	id := f.enqueue(job.Job{}).ID
	f.eventually("another node sees that it runs", func() bool {
		i, err := other.Get(f.ctx(), id)
		if err != nil {
			f.t.Fatalf("Get = %v", err)
		}
		return i.State == job.Running && i.Node == "here" && i.Progress == 0.5 && i.Note == "half" && i.Attempts == 1
	})
	g.open()
	f.good(id)
	if i, err := other.Get(f.ctx(), id); err != nil || i.State != job.Done || i.Progress != 0.5 {
		f.t.Errorf("Get from another node = %+v, %v, want done", i, err)
	}
}
