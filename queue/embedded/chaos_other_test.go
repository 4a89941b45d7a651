//go:build !linux

package embedded_test

// role does nothing: the tests that start this binary again are for Linux.
func role() bool { return false }
