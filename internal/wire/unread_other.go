//go:build unix && !linux

package wire

import "errors"

func unread(uintptr) (int, error) { return 0, errors.ErrUnsupported }

// Readable is not known without reading: false.
func Readable(uintptr) bool { return false }
