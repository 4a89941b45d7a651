//go:build !linux

package confine

// DeniedCalls is empty: there is no filter on this system.
func DeniedCalls() []CallGroup { return nil }
