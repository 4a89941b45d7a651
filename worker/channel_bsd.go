//go:build unix && !linux

package worker

import "syscall"

// replace makes descriptor to a duplicate of from.
func replace(from, to int) error { return syscall.Dup2(from, to) }
