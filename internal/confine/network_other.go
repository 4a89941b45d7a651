//go:build !linux

package confine

import (
	"context"
	"net"
)

// Network is a network for one child; this system has none.
type Network struct{}

// NewNetwork returns [ErrUnsupported].
func NewNetwork() (*Network, error) { return nil, ErrUnsupported }

// Listen returns [ErrUnsupported].
func (*Network) Listen(int) (net.Listener, error) { return nil, ErrUnsupported }

// Dial returns [ErrUnsupported].
func (*Network) Dial(context.Context, string) (net.Conn, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Network) Close() error { return nil }
