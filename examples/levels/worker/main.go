// Worker serves the handlers of the example levels: as a process, or, built for wasip1, as an
// instance of WebAssembly.
//
//	go build -o worker ./examples/levels/worker
//	GOOS=wasip1 GOARCH=wasm go build -o worker.wasm ./examples/levels/worker
package main

import (
	"github.com/bullpen-run/bullpen/examples/levels/tasks"
	"github.com/bullpen-run/bullpen/worker"
)

func main() { worker.Main(worker.Config{Handlers: tasks.Handlers()}) }
