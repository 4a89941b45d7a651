package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/job"
)

// appends answers with the payload and the name of its task.
func appends(_ context.Context, t bullpen.Task) ([]byte, error) {
	return append(append([]byte(nil), t.Payload...), t.Name...), nil
}

func TestChain(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	var saw []job.Delivered
	workOn(t, q, newTeam(1, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
		saw = append(saw, AttemptOf(task))
		return appends(ctx, task)
	}), WorkConfig{})
	ref, err := q.EnqueueChain(t.Context(), job.Job{Name: "a", Payload: []byte("-")}, job.Job{Name: "b", Delay: 5 * time.Millisecond}, job.Job{Name: "c", Priority: job.High})
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.WaitChain(t.Context(), ref.ID)
	if err != nil || string(r.Payload) != "-abc" {
		t.Fatalf("the chain gave %q, %v", r.Payload, err)
	}
	info := &job.Info{Next: ref.ID}
	for i := 1; info.Next != ""; i++ {
		id := info.Next
		if info, err = q.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if info.Chain != ref.ID || info.Link != i || info.Links != 3 || (info.Next == "") != (i == 3) {
			t.Errorf("job %d of the chain is %+v", i, info)
		}
		if d := saw[i-1]; d.Chain != ref.ID || d.Link != i {
			t.Errorf("job %d received %+v", i, d)
		}
	}
}

// TestChainOfOneKey has callers race for one key: the chain has the id of the one
// that won.
func TestChainOfOneKey(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	workOn(t, q, newTeam(1, appends), WorkConfig{})
	j := job.Job{Key: "once", Then: []job.Job{{Name: "x"}}}
	first, again := enqueued(t, q, j), enqueued(t, q, j)
	if first.ID != again.ID || !again.Existing {
		t.Errorf("enqueued as %+v, then as %+v", first, again)
	}
	if r, err := q.WaitChain(t.Context(), again.ID); err != nil || string(r.Payload) != "x" {
		t.Errorf("the chain gave %q, %v", r.Payload, err)
	}
}

func TestChainFaults(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{MaxPayload: 4096})
	for what, c := range map[string]struct {
		job  job.Job
		says string
	}{
		"a payload of its own":  {job.Job{Then: []job.Job{{Payload: []byte("x")}}}, "Then[0] has a payload"},
		"a key":                 {job.Job{Then: []job.Job{{}, {Key: "x"}}}, "Then[1] has a key"},
		"a chain in a chain":    {job.Job{Then: []job.Job{{Then: []job.Job{{}}}}}, "Then[0] has jobs of its own"},
		"a fault":               {job.Job{Then: []job.Job{{Delay: -1}}}, "Delay is -1ns"},
		"too many":              {job.Job{Then: make([]job.Job, job.LongestChain)}, "Then has 64 jobs"},
		"too much":              {job.Job{Then: []job.Job{{Name: "x", Meta: map[string]string{"k": strings.Repeat("v", 3000)}}}}, "Config.MaxPayload"},
		"too much with payload": {job.Job{Payload: make([]byte, 4000), Then: []job.Job{{}}}, "Config.MaxPayload"},
	} {
		if _, err := q.Enqueue(t.Context(), c.job); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
	if _, err := q.EnqueueChain(t.Context()); err == nil {
		t.Error("a chain of nothing was enqueued")
	}
	if _, err := q.EnqueueChain(t.Context(), job.Job{Then: []job.Job{{}}}, job.Job{}); err == nil {
		t.Error("a chain with two ways to go on was enqueued")
	}
}

// TestChainEnds has chains that do not reach their end, each for another reason.
func TestChainEnds(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{MaxPayload: 4096, MaxResult: 8192, Retry: job.Retry{Attempts: 1}})
	started := make(chan string, 1)
	workOn(t, q, newTeam(1, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
		switch task.Name {
		case "fails":
			return nil, errors.New("it went wrong")
		case "large":
			return make([]byte, 4096), nil
		case "hangs":
			started <- task.ID
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return appends(ctx, task)
	}), WorkConfig{})
	for _, c := range []struct {
		name    string
		outcome bullpen.Outcome
	}{{"fails", bullpen.Failed}, {"large", bullpen.Output}, {"hangs", bullpen.Canceled}} {
		ref, err := q.EnqueueChain(t.Context(), job.Job{Name: "a"}, job.Job{Name: c.name}, job.Job{Name: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if c.name == "hangs" {
			<-started
			if err := q.CancelChain(t.Context(), ref.ID); err != nil {
				t.Fatal(err)
			}
		}
		_, err = q.WaitChain(t.Context(), ref.ID)
		var end *job.EndError
		if !errors.As(err, &end) || end.Outcome != c.outcome || end.ID == ref.ID {
			t.Errorf("%s: %v, want outcome %v of the second job", c.name, err, c.outcome)
		}
	}
	// The last one of a chain may have as large a result as any job.
	ref, err := q.EnqueueChain(t.Context(), job.Job{Name: "a"}, job.Job{Name: "large"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := q.WaitChain(t.Context(), ref.ID); err != nil || len(r.Payload) != 4096 {
		t.Errorf("the last result has %d bytes, %v", len(r.Payload), err)
	}
	if err := q.CancelChain(t.Context(), ref.ID); !errors.Is(err, job.ErrEnded) {
		t.Errorf("a chain that has ended was canceled: %v", err)
	}
}

// TestChainGoesOnAfterRetryDead has a dead job of a chain tried again.
func TestChainGoesOnAfterRetryDead(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{Retry: job.Retry{Attempts: 1}})
	workOn(t, q, newTeam(1, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
		if d := AttemptOf(task); task.Name == "b" && d.Parent == "" {
			return nil, fmt.Errorf("not the first time")
		}
		return appends(ctx, task)
	}), WorkConfig{})
	ref, err := q.EnqueueChain(t.Context(), job.Job{Name: "a"}, job.Job{Name: "b"}, job.Job{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.WaitChain(t.Context(), ref.ID)
	var end *job.EndError
	if !errors.As(err, &end) {
		t.Fatal(err)
	}
	again, err := q.RetryDead(t.Context(), end.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := q.WaitChain(t.Context(), again.ID); err != nil || string(r.Payload) != "abc" {
		t.Errorf("the rest of the chain gave %q, %v", r.Payload, err)
	}
	if i, err := q.Get(t.Context(), again.ID); err != nil || i.Chain != ref.ID || i.Link != 2 {
		t.Errorf("it is %+v, %v, want the second job of %s", i, err, ref.ID)
	}
}

// TestChainOfAFullStore has a store that takes no more jobs when the first of a chain
// ends: its outcome is recorded all the same, and the next comes when there is room.
func TestChainOfAFullStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{Shared: true}
		q := openOn(t, Config{Store: s})
		full := make(chan struct{})
		s.Inject(func(o memory.Operation) memory.Fault {
			select {
			case <-full:
			default:
				return memory.Fault{}
			}
			if o.Name == "put" && o.Stream == engine.Jobs {
				return memory.Fault{Err: engine.ErrFull}
			}
			return memory.Fault{}
		})
		workOn(t, q, newTeam(1, func(ctx context.Context, task bullpen.Task) ([]byte, error) {
			if task.Name == "a" {
				close(full)
			}
			return appends(ctx, task)
		}), WorkConfig{})
		ref, err := q.EnqueueChain(t.Context(), job.Job{Name: "a"}, job.Job{Name: "b"})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if info, err := q.Get(t.Context(), ref.ID); err != nil || info.State != job.Done {
			t.Errorf("the first is %+v, %v, want its outcome", info, err)
		}
		s.Inject(nil)
		if r, err := q.WaitChain(t.Context(), ref.ID); err != nil || string(r.Payload) != "ab" {
			t.Errorf("the chain gave %q, %v", r.Payload, err)
		}
	})
}
