package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/worker"
)

func upper(_ context.Context, t bullpen.Task) ([]byte, error) {
	return []byte(strings.ToUpper(string(t.Payload))), nil
}

// A whole worker. Its host starts it, as in process.Config{Command: …}.
func ExampleMain() {
	main := func() { // the program's own main
		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"upper": upper}})
	}
	_ = main
	fmt.Println("started by its host")
	// Output: started by its host
}

// Run returns where Main exits. Here nobody has handed it a channel.
func ExampleRun() {
	status, err := worker.Run(worker.Config{Handlers: map[string]bullpen.Handler{"upper": upper}})
	fmt.Println(status, errors.Is(err, worker.ErrByHand))
	// Output: 2 true
}

// One program can be both the host and its own workers.
func ExampleServing() {
	if worker.Serving() {
		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"upper": upper}})
	}
	fmt.Println("this process is the host")
	// Output: this process is the host
}

// Outside of a worker Progress does nothing, so that the same handler can run
// in a goroutine pool.
func ExampleProgress() {
	shrink := func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		worker.Progress(ctx, 0.5, "decoded")
		return t.Payload[:1], nil
	}
	small, err := shrink(context.Background(), bullpen.Task{Payload: []byte("photo")})
	fmt.Println(string(small), err)
	// Output: p <nil>
}

// In a worker the line goes to the host, with the number of the task.
func ExampleLogger() {
	handler := func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		worker.Logger(ctx).Debug("decoding", "bytes", len(t.Payload))
		return nil, nil
	}
	_, err := handler(context.Background(), bullpen.Task{})
	fmt.Println(err)
	// Output: <nil>
}
