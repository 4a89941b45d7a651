//go:build unix && !linux

package worker

import "syscall"

// replace makes the descriptor to the same as from.
func replace(from, to int) error { return syscall.Dup2(from, to) }
