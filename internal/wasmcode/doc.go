// Package wasmcode rewrites WebAssembly modules so that a host can stop them.
//
// Compiled WebAssembly runs as machine code that the Go scheduler cannot interrupt: a guest
// that loops keeps its processor for ever, and a garbage collection that starts meanwhile
// stops every other goroutine until the guest returns. [Instrument] adds a check at each
// function entry, at each loop header, and wherever a path without those is longer than
// about a hundred instructions. A check counts down; every [Period] checks the guest
// pauses: it goes through the host, where the collector and the scheduler have their turn,
// counts a tick, and traps if the host has set its flag.
//
// A guest ends within a tenth of a millisecond after its flag is set. Two things take longer:
// what the host does for it, such as zeroing the memory that it grows by, and the return
// from a recursion of 100,000 calls, which is not checked: some milliseconds.
//
// # What is added
//
// Globals and functions are appended, so no index changes and function names stay valid:
//
//   - a countdown, a flag and a count of ticks, the last two exported;
//   - the function that pauses, and functions that do memory.copy, memory.fill and
//     memory.init in pieces, with a charge for each;
//   - the start function under an exported name, instead of the start section: the host
//     calls it after it has the flag;
//   - exports of the module's own mutable globals, so that a host can restore them;
//   - a memory of no pages, if the module has none, as the pause needs one.
//
// Of custom sections the names of functions are kept. Debug information is dropped, as its
// offsets would be wrong.
//
// # Validity
//
// Every index of the module is checked against what the module itself has, so that it
// cannot name what is appended. What is inserted leaves the operand stack as it was. So the
// result is valid WebAssembly if, and only if, the module was: whoever compiles the result
// has validated both.
//
// What a compiler allocates for a module is bounded before it sees it: counts that are
// larger than their section, locals, tables and names are refused or cut.
package wasmcode
