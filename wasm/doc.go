// Package wasm runs tasks in instances of a WebAssembly module, in this program: each has its
// own memory and reaches nothing that it was not given, and it starts in microseconds. It is
// the isolation level between goroutines (package pool) and processes (package process).
//
//	p, err := wasm.New(wasm.Config{Path: "resize.wasm", Limits: bullpen.Limits{Memory: 64 << 20, Timeout: time.Second}})
//	result, err := bullpen.Execute(ctx, p, bullpen.Task{Payload: image})
//
// Three kinds of modules run (docs/wasm.md has examples in Go, Rust and C):
//
//   - a command of WASI preview 1, which any compiler makes: the payload is its standard
//     input, its standard output the result, and an exit status other than 0 a failure;
//   - a reactor, which exports bullpen_alloc and bullpen_run: its instances can be kept;
//   - a plug-in of Extism: the name of a task selects its function.
//
// By default each task has a fresh instance. [Restore] keeps instances and puts their memory
// back, [Stateless] keeps them as they are; see [Mode].
//
// # Guarantees
//
// Modules are rewritten when they are loaded: a guest checks at each function and each loop
// whether it was stopped, so that deadlines and cancellation end every guest, and the garbage
// collector of this program never waits for one. An instance whose task was stopped or
// trapped is discarded. Memory is bounded: a guest that dies because it got no more ends as
// bullpen.Memory. A guest has no network, and no files but those in [Config.Mounts].
//
// A guest is kept inside by the compiler (wazero), not by the operating system. A fault of the
// compiler is a fault of this program: use package process with a sandbox for code that may be
// written to find one. SECURITY.md says more.
//
// Every accepted task has exactly one outcome. A trap is [bullpen.Crashed], with its message
// and the stack of the guest. An error of a task that never started is no
// [*bullpen.TaskError].
package wasm
