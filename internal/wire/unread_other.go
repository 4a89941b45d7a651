//go:build unix && !linux

package wire

import "errors"

func unread(uintptr) (int, error) { return 0, errors.ErrUnsupported }

// Readable returns false: this system does not report it without reading.
func Readable(uintptr) bool { return false }
