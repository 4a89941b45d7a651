package wasmcode

import (
	"errors"
	"fmt"
)

// Names of the exports that Instrument adds. A module that has one of them already is
// refused with ErrReserved, as is every other name that begins with Reserved.
const (
	Reserved  = "bullpen:"
	flagName  = Reserved + "flag"
	ticksName = Reserved + "ticks"
	startName = Reserved + "start"
	ownPrefix = Reserved + "global." // and the index of the global
)

// Period is the number of checks in a tick. A check is a function entry, an iteration of a
// loop, at most 128 simple instructions, or 256 bytes that memory.copy, memory.fill or
// memory.init write.
const Period = 1024

// Module is an instrumented module and what a host needs to know of it.
type Module struct {
	// Code is the rewritten module.
	Code []byte

	// Flag is the name of an exported mutable i32 global. A value other than 0 makes the
	// guest trap (unreachable) when it pauses next; the instance must not be used again
	// then.
	//
	// Another goroutine than the one that runs the guest may set it, as in
	//
	//	instance.ExportedGlobal(m.Flag).(api.MutableGlobal).Set(1)
	//
	// provided that the instance is not closed meanwhile and that no two goroutines set it
	// at once: hold a lock, or use one goroutine. The guest reads it in machine code, as one
	// aligned word, after it has been in the host. In wazero's interpreter the guest reads
	// it in Go, which would be a data race: there, use WithCloseOnContextDone instead.
	Flag string

	// Ticks is the name of an exported mutable i64 global: how often the guest has paused.
	// Each tick stands for Period checks. Read it, or set it back, while the guest does not
	// run.
	Ticks string

	// Start is the name of an exported function without parameters and results that does
	// what the module's start function does. Call it once, after instantiation and before
	// anything else. It is empty if the module has no start function. Functions that merely
	// have a name such as _start are not concerned.
	Start string

	// Restorable reports that memory and the globals listed in Globals are the module's
	// whole state: it does not change its tables, drop data, or import a memory, a table or
	// a mutable global. Memory that has grown stays grown.
	Restorable bool

	// Globals has the exported names of the module's own mutable globals. It is empty if
	// Restorable is false.
	Globals []string

	Imports []Import
	Exports []Export // without those that Instrument has added
	Memory  *Memory  // nil if the module has none
}

// Import is what a module wants from its host.
type Import struct {
	Module, Name string
	Kind         Kind
}

// Export is what a module offers.
type Export struct {
	Name string
	Kind Kind
}

// Memory is the size of a module's memory in pages of 64 KiB.
type Memory struct {
	Min, Max uint32 // Max is 65,536 where the module sets no bound
	Imported bool
}

// Kind is what an import or an export is.
type Kind byte

// The kinds have the numbers of the binary format.
const (
	Function Kind = iota
	TableKind
	MemoryKind
	GlobalKind
)

// String returns the word of the text format.
func (k Kind) String() string {
	switch k {
	case Function:
		return "func"
	case TableKind:
		return "table"
	case MemoryKind:
		return "memory"
	case GlobalKind:
		return "global"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// What is wrong with a module that Instrument refuses.
var (
	// ErrNotModule says that the bytes are no WebAssembly.
	ErrNotModule = errors.New("not a WebAssembly module")
	// ErrComponent says that the bytes are a WebAssembly component.
	ErrComponent = errors.New("a WebAssembly component, not a core module: build it for wasip1 (Rust: wasm32-wasip1, Go: GOOS=wasip1), or extract its core module")
	// ErrMalformed says that the module is damaged or invalid.
	ErrMalformed = errors.New("malformed WebAssembly module")
	// ErrReserved says that the module exports a name that begins with Reserved.
	ErrReserved = errors.New("the module exports a reserved name")
	// ErrTooLarge says that the module exceeds a bound that protects the host.
	ErrTooLarge = errors.New("the WebAssembly module is too large")
)

// UnsupportedError names a feature of WebAssembly that a module uses and that cannot be
// instrumented.
type UnsupportedError struct{ Feature string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("the WebAssembly module uses %s, which is not supported: build it without", e.Feature)
}

// Instrument returns code with checks at each loop and function, so that a host can stop it
// and the garbage collector need not wait for it. It keeps nothing of code. The error is one of the
// Err values above, perhaps wrapped, or an *UnsupportedError.
//
// The time and memory that it takes grow linearly with the code: about 5 ns a byte, and
// four times its size. BenchmarkInstrument measures it.
func Instrument(code []byte) (*Module, error) {
	d := &decoder{}
	if err := d.decode(code); err != nil {
		return nil, err
	}
	out, err := d.encode()
	if err != nil {
		return nil, err
	}
	m := &Module{
		Code: out, Flag: flagName, Ticks: ticksName,
		Imports: d.imports, Exports: d.exports, Memory: d.memory,
		Restorable: d.restorable(),
	}
	if d.start != nil {
		m.Start = startName
	}
	if m.Restorable {
		m.Globals = d.ownNames()
	}
	return m, nil
}
