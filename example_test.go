package bullpen_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
)

// One task: hand it over and wait for its outcome.
func ExampleExecute() {
	pool := newInline()
	defer pool.Close()

	r, err := bullpen.Execute(context.Background(), pool, bullpen.Task{Name: "upper", Payload: []byte("hello")})
	fmt.Printf("%s %v\n", r.Payload, err)
	// Output: HELLO <nil>
}

// A *TaskError says that the task started and how it ended; any other error says
// that it never started.
func ExampleTaskError() {
	pool := newInline()
	defer pool.Close()

	for _, task := range []bullpen.Task{
		{Name: "fail", Payload: []byte("no such user")},
		{Name: "fly"},
	} {
		_, err := bullpen.Execute(context.Background(), pool, task)
		var te *bullpen.TaskError
		switch {
		case errors.As(err, &te):
			fmt.Println("it ran:", te.Outcome, "because of", te.Message)
		case err != nil:
			fmt.Println("it never started:", err)
		}
	}
	// Output:
	// it ran: failed because of no such user
	// it never started: unknown task
}

// A handle stands for a task that goes on while the caller does something else.
func ExampleStart() {
	pool := newInline()
	defer pool.Close()

	h, err := bullpen.Start(context.Background(), pool, bullpen.Task{Name: "upper", Payload: []byte("later")})
	if err != nil {
		fmt.Println("it never started:", err)
		return
	}
	r, err := h.Result()
	fmt.Printf("%s %v\n", r.Payload, err)
	// Output: LATER <nil>
}

// The end of a wait is not the end of the task.
func ExampleHandle_Wait() {
	pool := newInline()
	defer pool.Close()

	h, err := bullpen.Start(context.Background(), pool, bullpen.Task{Name: "block"})
	if err != nil {
		fmt.Println("it never started:", err)
		return
	}
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = h.Wait(short)
	fmt.Println(errors.Is(err, bullpen.ErrWaiting))

	h.Cancel(nil)
	_, err = h.Result()
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// true
	// true
}

func ExampleHandle_Cancel() {
	pool := newInline()
	defer pool.Close()

	h, err := bullpen.Start(context.Background(), pool, bullpen.Task{Name: "block", ID: "7"})
	if err != nil {
		fmt.Println("it never started:", err)
		return
	}
	h.Cancel(errors.New("the user went away"))
	<-h.Done()
	_, err = h.Result()
	fmt.Println(err)
	// Output: task "block" 7 canceled: context canceled
}

// Many tasks, read one by one from an iterator; the results come in the order of
// the input.
func ExampleMap() {
	pool := newInline()
	defer pool.Close()

	words := upper("one two three")
	for ended := range bullpen.Map(context.Background(), pool, slices.Values(words), bullpen.MapOptions{}) {
		fmt.Printf("%d %s\n", ended.Index, ended.Result.Payload)
	}
	// Output:
	// 0 ONE
	// 1 TWO
	// 2 THREE
}

// Results in the order in which tasks end. Leaving the loop cancels the rest.
func ExampleMap_asCompleted() {
	pool := newInline()
	defer pool.Close()

	tasks := append([]bullpen.Task{{Name: "block"}}, upper("fast")...)
	for ended := range bullpen.Map(context.Background(), pool, slices.Values(tasks), bullpen.MapOptions{AsCompleted: true}) {
		fmt.Printf("%d %s\n", ended.Index, ended.Result.Payload)
		break
	}
	// Output: 1 FAST
}

// A failure of one task stops none of the others.
func ExampleExecuteAll() {
	pool := newInline()
	defer pool.Close()

	tasks := append(upper("a b"), bullpen.Task{Name: "fail", Payload: []byte("no")})
	for _, ended := range bullpen.ExecuteAll(context.Background(), pool, tasks) {
		fmt.Printf("%d %q %v\n", ended.Index, ended.Result.Payload, ended.Err)
	}
	// Output:
	// 0 "A" <nil>
	// 1 "B" <nil>
	// 2 "" task "fail" failed: no
}

func ExampleOutcomeOf() {
	for _, err := range []error{
		nil,
		&bullpen.TaskError{Outcome: bullpen.Crashed, Signal: "killed"},
		bullpen.ErrOverloaded,
	} {
		if outcome, started := bullpen.OutcomeOf(err); started {
			fmt.Println("ended:", outcome)
		} else {
			fmt.Println("never started:", err)
		}
	}
	// Output:
	// ended: ok
	// ended: crashed
	// never started: executor is overloaded
}

func ExampleOutcomes() {
	for _, o := range bullpen.Outcomes() {
		fmt.Print(o, " ")
	}
	// Output: ok failed panic timeout canceled crashed memory output protocol lost
}

func ExampleParseOutcome() {
	o, err := bullpen.ParseOutcome("timeout")
	fmt.Println(o == bullpen.Timeout, err)
	// Output: true <nil>
}

// A handler says no, and whether another try may end otherwise.
func ExampleFail() {
	handler := func(_ context.Context, t bullpen.Task) ([]byte, error) {
		if len(t.Payload) == 0 {
			return nil, bullpen.Fail("the payload is empty", false)
		}
		return t.Payload, nil
	}
	_, err := handler(context.Background(), bullpen.Task{})
	fmt.Println(err, bullpen.Retryable(err))
	// Output: the payload is empty false
}

func ExampleRetryable() {
	fmt.Println(bullpen.Retryable(errors.New("connection reset")))
	fmt.Println(bullpen.Retryable(bullpen.Fail("no such user", false)))
	// Output:
	// true
	// false
}

func ExampleLimits_Check() {
	fmt.Println(bullpen.Limits{Timeout: time.Second, Output: -1}.Check())
	// Output: limit Output is -1: use a positive number of bytes, or 0 for none
}
