package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrStranger means that the other end of a connection belongs to another user.
var ErrStranger = errors.New("the other end of the connection belongs to another user of this machine")

// CheckPeer returns ErrStranger if the other end of a connection on the loopback interface
// belongs to a user other than that of this process. The kernel lists the owner of every
// socket, see proc(5), net/tcp.
func CheckPeer(conn net.Conn) error {
	local, err := addressOf(conn.LocalAddr())
	if err != nil {
		return err
	}
	remote, err := addressOf(conn.RemoteAddr())
	if err != nil {
		return err
	}
	return checkOwner(func(s socket) bool { return s.local == remote && s.remote == local })
}

// CheckListener returns ErrStranger if a socket that listens at that port belongs to a user
// other than that of this process.
func CheckListener(port int) error {
	return checkOwner(func(s socket) bool { return s.listens && int(s.local.Port()) == port })
}

// checkOwner checks who owns the first socket for which is reports true.
func checkOwner(is func(socket) bool) error {
	for _, table := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		file, err := os.Open(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // the system has no IPv6
		}
		if err != nil {
			return err
		}
		owner, err := findOwner(file, is)
		_ = file.Close()
		switch {
		case err != nil:
			return err
		case owner == os.Geteuid():
			return nil
		case owner >= 0:
			return fmt.Errorf("%w: user %d", ErrStranger, owner)
		}
	}
	return fmt.Errorf("%w: it has ended", ErrStranger)
}

// socket is a line of the kernel's table.
type socket struct {
	local, remote netip.AddrPort
	listens       bool
}

// findOwner returns the owner of the first socket for which is reports true, or -1.
func findOwner(table *os.File, is func(socket) bool) (int, error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) < 8 {
			continue
		}
		local, ok := parseSocket(field[1])
		remote, ok2 := parseSocket(field[2])
		if !ok || !ok2 || !is(socket{local, remote, field[3] == "0A"}) {
			continue
		}
		if owner, err := strconv.Atoi(field[7]); err == nil {
			return owner, nil
		}
	}
	return -1, lines.Err()
}

// parseSocket parses an address: words of 32 bits in the order of the processor's bytes,
// and the port.
func parseSocket(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

func addressOf(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is not a TCP address", a)
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
}
