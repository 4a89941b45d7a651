// Levels runs one set of handlers at the isolation level that its arguments name: in
// goroutines, in WebAssembly instances, in processes, or in processes that see nothing of the
// machine. Only the configuration differs.
//
//	go run ./examples/levels goroutine
//	go run ./examples/levels wasm worker.wasm
//	go run ./examples/levels process ./worker
//	go run ./examples/levels strict ./worker
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/examples/levels/tasks"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/wasm"
)

// open makes an executor. program is the worker, as a program or as a module.
func open(level, program string) (bullpen.Executor, error) {
	switch level {
	case "goroutine":
		return pool.New(pool.Config{Handlers: tasks.Handlers()})
	case "wasm":
		return wasm.New(wasm.Config{Path: program, Tasks: []string{"words"}})
	case "process":
		return process.New(process.Config{Command: []string{program}})
	case "strict":
		return process.New(process.Config{Command: []string{program}, Sandbox: process.Sandbox{Profile: process.ProfileStrict}})
	default:
		return nil, fmt.Errorf("no level %q: use goroutine, wasm, process or strict", level)
	}
}

// run counts a text and an empty one, which fails.
func run(level, program string) (err error) {
	e, err := open(level, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	for _, text := range []string{"to be\nor not to be\n", ""} {
		r, err := bullpen.Execute(context.Background(), e, bullpen.Task{Name: "words", Payload: []byte(text)})
		fmt.Printf("%q: %s %v\n", text, r.Payload, err)
	}
	return nil
}

func main() {
	var args [2]string
	copy(args[:], os.Args[1:])
	if err := run(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
