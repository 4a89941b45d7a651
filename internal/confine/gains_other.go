//go:build !linux

package confine

// ForbidGains is for Linux only.
func ForbidGains() error { return ErrUnsupported }
