// Package words has one task in three languages, as commands of WASI for package wasm: Go (in
// the folder go), Rust and C. Each source names the command that builds it.
package words
