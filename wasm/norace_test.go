//go:build !race

package wasm

const raced = false
