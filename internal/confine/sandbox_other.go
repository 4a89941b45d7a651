//go:build !linux

package confine

// DeniedCalls returns nil: this system has no filter.
func DeniedCalls() []CallGroup { return nil }
