package queuetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// testPayloadKept wants payloads of jobs that have ended to be kept within their bound,
// and true words where they are not.
func testPayloadKept(f *fixture) {
	const bound = 1000
	f.open(queue.Config{Keep: job.Keep{Payloads: bound}})
	f.staff(1, byName(newGate()))
	small, meta := []byte("small"), map[string]string{"k": "v"}
	done := f.enqueue(job.Job{Name: "echo", Payload: small, Meta: meta}).ID
	f.good(done)
	empty := f.enqueue(job.Job{Name: "echo"}).ID
	f.good(empty)
	dead := f.enqueue(job.Job{Name: "fail", Payload: bytes.Repeat(small, bound)}).ID
	f.bad(dead, bullpen.Failed, job.Final)
	canceled := f.enqueue(job.Job{Delay: time.Hour, Payload: small}).ID
	waiting := f.enqueue(job.Job{Delay: time.Hour, Payload: bytes.Repeat(small, bound)}).ID
	large := f.enqueue(job.Job{Name: "echo", Payload: bytes.Repeat(small, bound)}).ID
	f.good(large)
	if err := f.Cancel(f.ctx(), canceled); err != nil {
		f.t.Fatalf("Cancel = %v", err)
	}
	for id, want := range map[string][]byte{done: small, empty: nil, canceled: small, dead: bytes.Repeat(small, bound), waiting: bytes.Repeat(small, bound)} {
		if got, err := f.Payload(f.ctx(), id); err != nil || !bytes.Equal(got, want) {
			f.t.Errorf("Payload = %d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if i := f.get(done); string(i.Payload) != string(small) || i.PayloadSize != len(small) || i.Meta["k"] != "v" {
		f.t.Errorf("Get of a job that is done = %+v, want its payload and metadata", i)
	}
	if i := f.get(large); i.Payload != nil || i.PayloadSize != len(small)*bound {
		f.t.Errorf("Get of a large job that is done: %d bytes of %d, want none of %d", len(i.Payload), i.PayloadSize, len(small)*bound)
	}
	for what, call := range map[string]func() error{
		"Payload": func() error { _, err := f.Payload(f.ctx(), large); return err },
		"Retry":   func() error { _, err := f.Retry(f.ctx(), large); return err },
	} {
		if err := call(); !errors.Is(err, job.ErrPayloadGone) || errors.Is(err, job.ErrNotFound) || !strings.Contains(err.Error(), "Keep.Payloads") {
			f.t.Errorf("%s of a large job that is done = %v, want ErrPayloadGone with the bound", what, err)
		}
	}
	if err := f.RemoveDead(f.ctx(), dead); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.Payload(f.ctx(), dead); !errors.Is(err, job.ErrPayloadGone) {
		f.t.Errorf("Payload of a job that was removed from the dead = %v, want ErrPayloadGone", err)
	}
	if _, err := f.Retry(f.ctx(), waiting); !errors.Is(err, job.ErrNotEnded) {
		f.t.Errorf("Retry of a job that waits = %v, want ErrNotEnded", err)
	}
}

// testRetryDone wants a job that has ended to be tried again as a new one.
func testRetryDone(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	c := f.staff(2, byName(g))
	j := job.Job{
		Name: "echo", Payload: []byte("p"), Meta: map[string]string{"k": "v"}, Key: "key", Priority: job.Low,
		Limits: bullpen.Limits{Output: 77}, Then: []job.Job{{Name: "echo"}},
	}
	id := f.enqueue(j).ID
	if _, err := f.WaitChain(f.ctx(), id); err != nil {
		f.t.Fatal(err)
	}
	ref, err := f.Retry(f.ctx(), id)
	if err != nil || ref.ID == id || ref.ID == "" || ref.Existing {
		f.t.Fatalf("Retry = %+v, %v, want a new job", ref, err)
	}
	f.good(ref.ID)
	s := f.numbered(c, ref.ID, 1)[0]
	if s.Parent != id || s.task.Meta["k"] != "v" || s.task.Limits != j.Limits || string(s.task.Payload) != "p" {
		f.t.Errorf("the handler received %+v with %+v, want what the job %s was", s.Delivered, s.task, id)
	}
	i := f.get(ref.ID)
	if i.Parent != id || i.Priority != job.Low || i.State != job.Done || i.Next != "" || i.Chain != "" {
		f.t.Errorf("Get = %+v, want a job alone with its parent", i)
	}
	if i := f.get(id); i.State != job.Done || i.Next == "" {
		f.t.Errorf("the old job has become %+v", i)
	}
	if again, err := f.Retry(f.ctx(), id); err != nil || again.Existing || again.ID == ref.ID {
		f.t.Errorf("Retry after the end of the new job = %+v, %v, want another one", again, err)
	}
	// Until it has ended, calling again gives back the same.
	held := f.enqueue(job.Job{Name: "gate"}).ID
	if err := f.Cancel(f.ctx(), held); err != nil {
		f.t.Fatal(err)
	}
	first, err := f.Retry(f.ctx(), held)
	if err != nil {
		f.t.Fatal(err)
	}
	if second, err := f.Retry(f.ctx(), held); err != nil || second.ID != first.ID || !second.Existing {
		f.t.Errorf("Retry while the new job runs = %+v, %v, want %s", second, err, first.ID)
	}
	g.open()
	f.good(first.ID)
	if _, err := f.Retry(context.WithoutCancel(f.ctx()), strings.Repeat("0", 26)); !errors.Is(err, job.ErrNotFound) {
		f.t.Errorf("Retry of a job that is not there = %v", err)
	}
}
