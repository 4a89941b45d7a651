//go:build !linux

package wire

import "net"

// Hung returns false: only Linux is asked.
func Hung(net.Conn) bool { return false }

// Reset returns false: only Linux is asked.
func Reset(net.Conn) bool { return false }
