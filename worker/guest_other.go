//go:build !wasip1

package worker

// runGuest does nothing: only a program for WASI can be a guest of package wasm.
func runGuest(Config) (served bool, err error) { return false, nil }
