//go:build race

package wasm

// raced says that the race detector is on, under which compiling and instantiating take
// twenty times as long.
const raced = true
