//go:build !linux

package confine

import "os"

// Groups is not supported on this system.
type Groups struct{}

// OpenGroups returns [ErrUnsupported].
func OpenGroups(Bounds) (*Groups, error) { return nil, ErrUnsupported }

// Kind returns "".
func (g *Groups) Kind() string { return "" }

// Get returns [ErrUnsupported].
func (g *Groups) Get(Bounds) (*Group, error) { return nil, ErrUnsupported }

// Weigh returns [ErrUnsupported].
func (g *Groups) Weigh(int, int, int) error { return ErrUnsupported }

// Close does nothing.
func (g *Groups) Close() error { return nil }

// Group is not supported on this system.
type Group struct{}

// Usage returns [ErrUnsupported].
func (g *Group) Usage() (Usage, error) { return Usage{}, ErrUnsupported }

// Kill returns [ErrUnsupported].
func (g *Group) Kill() error { return ErrUnsupported }

// Put does nothing.
func (g *Group) Put() {}

// Entry returns [ErrUnsupported].
func (g *Group) Entry() ([]*os.File, error) { return nil, ErrUnsupported }
