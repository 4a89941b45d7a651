package confine

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Network is a network namespace for one child, with a loopback interface and nothing
// else. The host reaches servers in it, and serves in it; nobody else does. Creating one
// takes about a millisecond and the right to create namespaces (CAP_SYS_ADMIN). See
// network_namespaces(7). All methods are safe for concurrent use.
type Network struct{ file *os.File }

// NewNetwork creates a network. The caller must close it.
func NewNetwork() (n *Network, err error) {
	done := make(chan struct{})
	onOwnThread(func() { // ends at once; waited for below
		defer close(done)
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		if err = loopbackUp(); err != nil {
			return
		}
		var fd int
		if fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			n = &Network{os.NewFile(uintptr(fd), "network namespace")}
		}
	})
	<-done
	if err != nil {
		return nil, fmt.Errorf("confine: a network for a child: %w", err)
	}
	return n, nil
}

// loopbackUp turns on the loopback interface of the thread's namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// inside runs f on a thread in the namespace. f must open its sockets itself, not by other
// goroutines.
func (n *Network) inside(f func() error) (err error) {
	done := make(chan struct{})
	onOwnThread(func() { // ends with f; waited for below
		defer close(done)
		if err = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err == nil {
			err = f()
		}
	})
	<-done
	return err
}

// Listen listens at a port of the loopback interface.
func (n *Network) Listen(port int) (l net.Listener, err error) {
	err = n.inside(func() error {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:"+strconv.Itoa(port))
		return err
	})
	return l, err
}

// Dial connects to a TCP address, given by numbers.
func (n *Network) Dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.inside(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// Close gives the network up. It lasts until the child and all connections have ended.
func (n *Network) Close() error { return n.file.Close() }
