package bullpen_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bullpen-run/bullpen"
)

// fast is an executor with faster ways of its own.
type fast struct {
	*inline

	executed, batches int
}

func (f *fast) Execute(context.Context, bullpen.Task) (bullpen.Result, error) {
	f.executed++
	return bullpen.Result{}, nil
}

func (f *fast) ExecuteAll(_ context.Context, tasks []bullpen.Task) []bullpen.Ended {
	f.batches++
	return make([]bullpen.Ended, len(tasks))
}

func TestFasterWaysAreTaken(t *testing.T) {
	t.Parallel()
	f := &fast{inline: newInline()}
	if _, err := bullpen.Execute(t.Context(), f, bullpen.Task{}); err != nil || f.executed != 1 {
		t.Errorf("Execute() = %v, and the executor's own way was taken %d times", err, f.executed)
	}
	if all := bullpen.ExecuteAll(t.Context(), f, make([]bullpen.Task, 3)); len(all) != 3 || f.batches != 1 {
		t.Errorf("ExecuteAll() gave %d answers, and the executor's own way was taken %d times", len(all), f.batches)
	}
}

func TestExecuteWaitsForTheEndOfACanceledTask(t *testing.T) {
	t.Parallel()
	s := newScripted()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { // ends with the task, which the test waits for
		_, err := bullpen.Execute(ctx, s, bullpen.Task{})
		result <- err
	}()
	g := <-s.given
	cancel()
	<-g.ctx.Done()
	if len(result) != 0 {
		t.Error("Execute returned before the task had ended")
	}
	ended := &bullpen.TaskError{Outcome: bullpen.Canceled}
	g.done(bullpen.Result{}, ended)
	if err := <-result; !errors.Is(err, ended) {
		t.Errorf("Execute() = %v, want the outcome of the task", err)
	}
}

func TestStartOfRefusedTask(t *testing.T) {
	t.Parallel()
	h, err := bullpen.Start(t.Context(), newInline(), bullpen.Task{Name: "fly"})
	if h != nil || !errors.Is(err, bullpen.ErrUnknownTask) {
		t.Errorf("Start() = %v, %v", h, err)
	}
	if _, err := bullpen.Execute(t.Context(), newInline(), bullpen.Task{Name: "fly"}); !errors.Is(err, bullpen.ErrUnknownTask) {
		t.Errorf("Execute() = %v", err)
	}
}

func TestHandleOfEndedTaskNeedsNoWait(t *testing.T) {
	t.Parallel()
	h, err := bullpen.Start(t.Context(), newInline(), bullpen.Task{Name: "upper", Payload: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	<-h.Done()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // the outcome wins over the end of the context, every time
		if r, err := h.Wait(ended); err != nil || string(r.Payload) != "X" {
			t.Fatalf("Wait() = %q, %v", r.Payload, err)
		}
	}
}

func TestExecuteAllMixesRefusalsAndResults(t *testing.T) {
	t.Parallel()
	tasks := append(upper("a"), bullpen.Task{Name: "fly"}, bullpen.Task{Name: "fail"})
	all := bullpen.ExecuteAll(t.Context(), newInline(), tasks)
	for i, want := range []bullpen.Outcome{bullpen.OK, 0, bullpen.Failed} {
		got, started := bullpen.OutcomeOf(all[i].Err)
		if all[i].Index != i || all[i].Task.Name != tasks[i].Name || started == (i == 1) || got != want {
			t.Errorf("answer %d is %+v", i, all[i])
		}
	}
}
