//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// worker is a program that serves tasks with the SDK: this test itself.
func worker() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// A pool of workers that are any filter: one line in, one line out.
func ExampleNew() {
	pool, err := process.New(process.Config{
		Command:  []string{"sed", "-u", "s/world/bullpen/"},
		Protocol: process.Lines,
		Max:      4,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	r, err := pool.Execute(context.Background(), bullpen.Task{Payload: []byte("hello world")})
	fmt.Printf("%s %v\n", r.Payload, err)
	// Output: hello bullpen <nil>
}

// Tasks that share calls: each worker gets up to 32 of them as a JSON array.
func ExampleBatch() {
	pool, err := process.New(process.Config{
		Command: []string{worker()},
		Batch:   process.Batch{Max: 32, Wait: 5 * time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	for _, e := range pool.ExecuteAll(context.Background(), []bullpen.Task{
		{Name: "list", Payload: []byte(`"straw"`)},
		{Name: "list", Payload: []byte(`{"Do": "fail", "Arg": "no hay"}`)},
	}) {
		outcome, _ := bullpen.OutcomeOf(e.Err)
		fmt.Println(outcome)
	}
	// Output:
	// ok
	// failed
}

// New reports all faults of a configuration at once.
func ExampleNew_faults() {
	_, err := process.New(process.Config{Command: []string{"cat"}, Min: 3, Max: 2, Queue: -1})
	fmt.Println(err)
	// Output:
	// process: the configuration has faults:
	// Max is 2 and Min is 3: Max must not be below Min
	// Queue is -1: use 1 or more tasks, or 0 for 1024
}

// How to distinguish a task that failed from one that never started.
func ExamplePool_Execute() {
	pool, err := process.New(process.Config{
		Command: []string{worker()},
		Limits:  bullpen.Limits{Timeout: 30 * time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	for _, task := range []bullpen.Task{
		{Name: "upper", Payload: []byte("hello")},
		{Name: "fail", Payload: []byte("plain:no such user")},
		{Name: "exit", Payload: []byte("3")},
	} {
		r, err := pool.Execute(context.Background(), task)
		var te *bullpen.TaskError
		if errors.As(err, &te) {
			fmt.Println(te.Outcome, te.Message, te.ExitCode)
			continue
		}
		fmt.Println(string(r.Payload), err)
	}
	// Output:
	// HELLO <nil>
	// failed no such user -1
	// crashed  3
}

// ExecuteAll is the fastest way to run many short tasks. The results are in the order
// of the tasks.
func ExamplePool_ExecuteAll() {
	pool, err := process.New(process.Config{Command: []string{worker()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	var tasks []bullpen.Task
	for _, word := range []string{"one", "two", "three"} {
		tasks = append(tasks, bullpen.Task{Name: "upper", Payload: []byte(word)})
	}
	for _, e := range pool.ExecuteAll(context.Background(), tasks) {
		fmt.Println(e.Index, string(e.Result.Payload), e.Err)
	}
	// Output:
	// 0 ONE <nil>
	// 1 TWO <nil>
	// 2 THREE <nil>
}

// Submit does not wait for the outcome. Drain waits for all of them.
func ExamplePool_Submit() {
	pool, err := process.New(process.Config{Command: []string{worker()}, Max: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"one", "two"} {
		err := pool.Submit(context.Background(), bullpen.Task{Name: "upper", Payload: []byte(word)}, func(r bullpen.Result, err error) {
			fmt.Println(string(r.Payload), err)
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := pool.Drain(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ONE <nil>
	// TWO <nil>
}

// A stream of any length, with bounded memory.
func Example_map() {
	pool, err := process.New(process.Config{Command: []string{worker()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	words := func(yield func(bullpen.Task) bool) {
		for word := range strings.FieldsSeq("to be or not") {
			if !yield(bullpen.Task{Name: "upper", Payload: []byte(word)}) {
				return
			}
		}
	}
	for e := range bullpen.Map(context.Background(), pool, words, bullpen.MapOptions{}) {
		fmt.Println(string(e.Result.Payload), e.Err)
	}
	// Output:
	// TO <nil>
	// BE <nil>
	// OR <nil>
	// NOT <nil>
}

// One process per task: the payload replaces {} in the command.
func ExampleProtocol() {
	pool, err := process.New(process.Config{
		Command:  []string{"sh", "-c", "echo processing $0; exit ${#0}", "{}"},
		Protocol: process.Exec,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	for _, payload := range []string{"", "abc"} {
		r, err := pool.Execute(context.Background(), bullpen.Task{Name: "job", Payload: []byte(payload)})
		fmt.Printf("%q %v\n", r.Payload, err)
	}
	// Output:
	// "processing\n" <nil>
	// "" task "job" failed: exit status 3 (worker exited with status 3)
}

// What happens in a pool, as it happens.
func ExamplePool_Events() {
	pool, err := process.New(process.Config{Command: []string{worker()}, Max: 1, Name: "upper"})
	if err != nil {
		fmt.Println(err)
		return
	}
	events := pool.Events(0)
	if _, err := pool.Execute(context.Background(), bullpen.Task{Name: "upper"}); err != nil {
		fmt.Println(err)
	}
	if err := pool.Close(); err != nil {
		fmt.Println(err)
	}
	for e := range events.C {
		switch e.Kind {
		case process.Retired, process.Stopped:
			fmt.Println(e.Worker, e.Kind, "because of the", e.Cause)
		case process.Changed:
			fmt.Println(e.Kind, "to", e.Text)
		default:
			fmt.Println(e.Worker, e.Kind)
		}
	}
	// Output:
	// upper-1 started
	// upper-1 ready
	// pool changed state to closing
	// upper-1 retired because of the end of the pool
	// upper-1 stopped because of the end of the pool
	// pool changed state to closed
}

// New code for the workers, without a pause: each new worker is ready before an
// old one leaves.
func ExamplePool_Reload() {
	pool, err := process.New(process.Config{Command: []string{worker()}, Min: 2, Max: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	if err := pool.Ready(ctx, 2); err != nil {
		fmt.Println(err)
	}
	if err := pool.Reload(ctx); err != nil {
		fmt.Println("the new version does not start:", err)
	}
	s := pool.Stats()
	fmt.Println(s.Started, "started,", s.Stopped, "stopped,", s.Idle, "idle")
	// Output: 4 started, 2 stopped, 2 idle
}

// A misbehaving worker is replaced on request. Its task is not affected.
func ExamplePool_Recycle() {
	pool, err := process.New(process.Config{Command: []string{"cat"}, Protocol: process.Lines, Min: 1, Max: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	if err := pool.Ready(context.Background(), 1); err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range pool.Workers() {
		fmt.Println(w.State, w.Served, pool.Recycle(w.Name))
	}
	fmt.Println(errors.Is(pool.Recycle("nobody"), process.ErrNoWorker))
	// Output:
	// idle 0 <nil>
	// true
}

// What the pool can guarantee on this machine.
func ExamplePool_Guarantees() {
	pool, err := process.New(process.Config{Command: []string{"cat"}, Protocol: process.Lines})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	g := pool.Guarantees()
	fmt.Println("tasks are ended although they ignore it:", g.Preemptive)
	fmt.Println("no outcome is unknown:", g.Exact)
	fmt.Println(slices.ContainsFunc(g.Notes, func(note string) bool { return strings.Contains(note, "lost") }))
	// Output:
	// tasks are ended although they ignore it: true
	// no outcome is unknown: false
	// true
}

func ExamplePoolStates() {
	for _, s := range process.PoolStates() {
		fmt.Println(s)
	}
	// Output:
	// open
	// draining
	// stopping
	// closing
	// closed
}
