// Suite serves the tasks of executortest. The tests of package wasm build it for wasip1.
package main

import (
	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/worker"
)

func main() { worker.Main(worker.Config{Handlers: executortest.Handlers()}) }
