//go:build unix && !linux

package wire

import "errors"

func unread(uintptr) (int, error) { return 0, errors.ErrUnsupported }
