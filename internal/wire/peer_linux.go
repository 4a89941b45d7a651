package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrStranger means that the other end of a connection belongs to another user.
var ErrStranger = errors.New("the other end of the connection belongs to another user of this machine")

// CheckPeer returns ErrStranger if the other end of a connection on the loopback interface
// belongs to a user other than that of this process. The kernel lists the owner of every
// socket, see proc(5), net/tcp.
func CheckPeer(conn net.Conn) error {
	is, err := otherEnd(conn)
	if err != nil {
		return err
	}
	return checkOwner(is)
}

// otherEnd returns what finds the other end of a connection.
func otherEnd(conn net.Conn) (func(socket) bool, error) {
	local, err := addressOf(conn.LocalAddr())
	if err != nil {
		return nil, err
	}
	remote, err := addressOf(conn.RemoteAddr())
	return func(s socket) bool { return s.local == remote && s.remote == local }, err
}

// HolderOf returns which child process of parent has the other end of a connection, 0 if
// none has it or it cannot be found out.
func HolderOf(conn net.Conn, parent int) int {
	is, err := otherEnd(conn)
	if err != nil {
		return 0
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/net/tcp", parent)) // it may have a network of its own
	if err != nil {
		return 0
	}
	defer table.Close()
	s, err := findSocket(table, is)
	if err != nil || s == nil {
		return 0
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) // the pattern is well-formed
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for child := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(child); err == nil && hasSocket(pid, s.inode) {
				return pid
			}
		}
	}
	return 0
}

// hasSocket reports whether a process has a socket open.
func hasSocket(pid int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, _ := os.ReadDir(dir) // the process may have ended
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, f.Name()))
		return err == nil && to == "socket:["+inode+"]"
	})
}

// Ending reports whether a process has begun to exit, or is gone. A process whose files the
// kernel has closed at its end is one of them.
func Ending(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	const flags, exiting = 6, 0x4 // PF_EXITING, see proc(5) and the kernel's sched.h
	field := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(field) <= flags {
		return false
	}
	n, err := strconv.ParseUint(field[flags], 10, 64)
	return err == nil && n&exiting != 0
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
		s, err := findSocket(file, is)
		_ = file.Close()
		switch {
		case err != nil:
			return err
		case s == nil:
		case s.owner == os.Geteuid():
			return nil
		default:
			return fmt.Errorf("%w: user %d", ErrStranger, s.owner)
		}
	}
	return fmt.Errorf("%w: it has ended", ErrStranger)
}

// socket is a line of the kernel's table.
type socket struct {
	local, remote netip.AddrPort
	listens       bool
	owner         int
	inode         string
}

// findSocket returns the first socket for which is reports true, or nil.
func findSocket(table *os.File, is func(socket) bool) (*socket, error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) < 10 {
			continue
		}
		local, ok := parseSocket(field[1])
		remote, ok2 := parseSocket(field[2])
		owner, err := strconv.Atoi(field[7])
		if s := (socket{local, remote, field[3] == "0A", owner, field[9]}); ok && ok2 && err == nil && is(s) {
			return &s, nil
		}
	}
	return nil, lines.Err()
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
