//go:build !linux

package confine

import "os"

// Groups would be control groups; this system has none.
type Groups struct{}

// OpenGroups returns [ErrUnsupported].
func OpenGroups(Bounds) (*Groups, error) { return nil, ErrUnsupported }

// Kind is empty.
func (g *Groups) Kind() string { return "" }

// Get returns [ErrUnsupported].
func (g *Groups) Get(Bounds) (*Group, error) { return nil, ErrUnsupported }

// Weigh returns [ErrUnsupported].
func (g *Groups) Weigh(int, int, int) error { return ErrUnsupported }

// Close does nothing.
func (g *Groups) Close() error { return nil }

// Group would be a control group; this system has none.
type Group struct{}

// Usage returns [ErrUnsupported].
func (g *Group) Usage() (Usage, error) { return Usage{}, ErrUnsupported }

// Kill returns [ErrUnsupported].
func (g *Group) Kill() error { return ErrUnsupported }

// Put does nothing.
func (g *Group) Put() {}

// Entry returns [ErrUnsupported].
func (g *Group) Entry() ([]*os.File, error) { return nil, ErrUnsupported }
