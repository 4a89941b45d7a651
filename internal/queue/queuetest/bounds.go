package queuetest

import (
	"context"
	"errors"
	"strings"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

func testFull(f *fixture) {
	f.open(queue.Config{Keep: job.Keep{Jobs: 64 << 10}})
	feed := f.Events(0)
	defer feed.Close()
	j := job.Job{Name: "large", Payload: make([]byte, 1<<10)}
	var ids []string
	for {
		ref, err := f.Enqueue(f.ctx(), j)
		if err != nil {
			if !errors.Is(err, job.ErrFull) || ref.ID != "" {
				f.t.Fatalf("Enqueue into a full queue = %+v, %v, want ErrFull", ref, err)
			}
			break
		}
		if ids = append(ids, ref.ID); len(ids) > 100 {
			f.t.Fatalf("%d KiB were enqueued into 64 KiB", len(ids))
		}
	}
	if len(ids) < 30 {
		f.t.Errorf("%d KiB found room in 64 KiB, want more", len(ids))
	}
	refs, err := f.EnqueueAll(f.ctx(), jobs(10, j))
	if !errors.Is(err, job.ErrFull) {
		f.t.Errorf("EnqueueAll into a full queue = %v, want ErrFull", err)
	}
	for _, ref := range refs {
		if ref.ID != "" {
			ids = append(ids, ref.ID)
		}
	}
	if _, err := f.Enqueue(f.ctx(), job.Job{Key: "k", Payload: j.Payload}); !errors.Is(err, job.ErrFull) {
		f.t.Errorf("Enqueue with a key into a full queue = %v, want ErrFull", err)
	}
	if e := await(f, "an event tells of it", feed.C); e.Kind != job.Full && e.Kind != job.Verified {
		f.t.Errorf("the event is %v, want %v", e, job.Full)
	}
	if s := f.Stats(); s.Refused < 2 || s.Enqueued != uint64(len(ids)) {
		f.t.Errorf("Stats = %+v, want %d enqueued and the others refused", s, len(ids))
	}
	c := f.staff(4, echo)
	for _, id := range ids {
		f.good(id)
	}
	var ref job.Ref
	f.eventually("there is room again", func() bool {
		ref, err = f.Enqueue(f.ctx(), job.Job{Key: "k", Payload: j.Payload})
		return err == nil
	})
	f.good(ref.ID)
	if n := len(c.of("")); n != len(ids)+1 {
		f.t.Errorf("%d jobs ran, want the %d that were enqueued", n, len(ids)+1)
	}
}

func testClosed(f *fixture) {
	f.open(queue.Config{})
	q := f.Queue
	id := f.enqueue(job.Job{}).ID
	waits := make(chan error, 2)
	go func() { _, err := q.Wait(context.Background(), id); waits <- err }()                                // ends with Close
	go func() { _, _, err := q.Run(context.Background(), job.Job{Name: "nobody runs it"}); waits <- err }() // ends with Close
	f.eventually("Run has enqueued its job", func() bool { return f.Stats().Enqueued == 2 })
	feed := f.Events(0)
	f.shut(q)
	for range 2 {
		if err := await(f, "who waits returns", waits); !errors.Is(err, job.ErrClosed) {
			f.t.Errorf("a wait on a queue that is closed = %v, want ErrClosed", err)
		}
	}
	f.eventually("the feed is closed", func() bool {
		select {
		case _, open := <-feed.C:
			return !open
		default:
			return false
		}
	})
	feed.Close()
	calls := map[string]error{"Cancel": q.Cancel(f.ctx(), id), "Pause": q.Pause(f.ctx(), "default"), "Close": nil}
	_, calls["Enqueue"] = q.Enqueue(f.ctx(), job.Job{})
	_, calls["Enqueue with a key"] = q.Enqueue(f.ctx(), job.Job{Key: "k"})
	_, calls["EnqueueAll"] = q.EnqueueAll(f.ctx(), jobs(3, job.Job{}))
	_, _, calls["Run"] = q.Run(f.ctx(), job.Job{})
	_, calls["Get"] = q.Get(f.ctx(), id)
	_, calls["Wait"] = q.Wait(f.ctx(), id)
	_, calls["List"] = q.List(f.ctx(), job.Filter{})
	_, calls["Depth"] = q.Depth(f.ctx(), "default")
	_, calls["Status"] = q.Status(f.ctx())
	calls["Work"] = q.Work(f.ctx(), newExecutor(1, echo), queue.WorkConfig{})
	for name, err := range calls {
		if name != "Close" && !errors.Is(err, job.ErrClosed) {
			f.t.Errorf("%s after Close = %v, want ErrClosed", name, err)
		}
	}
	if err := q.Close(); err != nil {
		f.t.Errorf("the second Close = %v, want nil", err)
	}
}

// talk is a handler that says much of itself.
func talk(t bullpen.Task) {
	for i := range 70 {
		t.Observer.Log(bullpen.LogLine{Level: 4, Stream: "stderr", Text: strings.Repeat("é", i)})
	}
	t.Observer.Progress(0.5, "half")
}

func testObserved(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	f.staff(1, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		t.Observer.Progress(0.25, "a quarter")
		t.Observer.Log(bullpen.LogLine{Level: 8, Stream: "log", Text: "first"})
		t.Observer.Log(bullpen.LogLine{Stream: "stdout", Text: "second"})
		return g.handle(ctx, t)
	})
	id := f.enqueue(job.Job{}).ID
	await(f, "it runs", g.started)
	check := func(i *job.Info, state job.State) {
		if i.State != state || i.Progress != 0.25 || i.Note != "a quarter" || len(i.Lines) != 2 ||
			i.Lines[0].Text != "first" || i.Lines[0].Level != 8 || i.Lines[0].Stream != "log" || i.Lines[1].Text != "second" {
			f.t.Errorf("Get = %+v, want %v with progress, note and both lines", i, state)
		}
	}
	check(f.get(id), job.Running)
	g.open()
	f.good(id)
	check(f.get(id), job.Done)
	if listed := f.list(job.Filter{States: ended}); len(listed) != 1 || len(listed[0].Lines) != 2 {
		f.t.Errorf("List = %+v, want the job with its lines", listed)
	}
}

func testObservedBounds(f *fixture) {
	f.open(queue.Config{Keep: job.Keep{Lines: 20, LineBytes: 1000}})
	f.staff(1, func(_ context.Context, t bullpen.Task) ([]byte, error) {
		t.Observer.Progress(7, strings.Repeat("n", 1<<20))
		talk(t)
		t.Observer.Log(bullpen.LogLine{Text: strings.Repeat("é", 1<<20)[1:]})
		t.Observer.Log(bullpen.LogLine{Text: "last"})
		return nil, nil
	})
	id := f.enqueue(job.Job{}).ID
	f.good(id)
	i := f.get(id)
	size := 0
	for _, l := range i.Lines {
		size += len(l.Text)
	}
	if len(i.Lines) == 0 || len(i.Lines) > 20 || size > 1000 || i.Lines[len(i.Lines)-1].Text != "last" {
		f.t.Errorf("%d lines of %d bytes are kept, want the last, 20 and 1000 bytes at most", len(i.Lines), size)
	}
	if i.Progress != 0.5 || i.Note != "half" {
		f.t.Errorf("progress is %v, %q, want 0.5, half", i.Progress, i.Note)
	}
	f.shut(f.Queue)
	f.config.Keep.Lines = -1
	f.Queue = f.another()
	f.staff(1, func(_ context.Context, t bullpen.Task) ([]byte, error) { talk(t); return nil, nil })
	id = f.enqueue(job.Job{}).ID
	f.good(id)
	if i := f.get(id); len(i.Lines) != 0 {
		f.t.Errorf("%d lines are kept, want none with Keep.Lines -1", len(i.Lines))
	}
}

func testResultBound(f *fixture) {
	f.open(queue.Config{MaxResult: 100})
	f.staff(1, func(_ context.Context, t bullpen.Task) ([]byte, error) { return make([]byte, len(t.Payload)), nil })
	if r := f.good(f.enqueue(job.Job{Payload: make([]byte, 100)}).ID); len(r.Payload) != 100 {
		f.t.Errorf("the result has %d bytes, want 100", len(r.Payload))
	}
	end := f.bad(f.enqueue(job.Job{Payload: make([]byte, 101)}).ID, bullpen.Output, job.Final)
	if end.Attempts != 1 {
		f.t.Errorf("a job whose result is too large had %d attempts, want 1", end.Attempts)
	}
}
