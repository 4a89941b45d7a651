package confine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// order sends the request for f.
func (v *Server) order(f *birth, spec Spec) error {
	if len(spec.Files) > maxServerFiles {
		return fmt.Errorf("confine: %d files for a child of a fork server, the maximum is %d", len(spec.Files), maxServerFiles)
	}
	r := &forked{id: f.id, files: len(spec.Files), dir: spec.Dir, args: spec.Args, env: spec.Env}
	if r.dir == "" {
		r.dir = v.dir
	}
	if !v.spawner.guarded() {
		r.flags |= forkMortal
	}
	files := spec.Files
	if spec.Group != nil {
		entries, err := spec.Group.Entry()
		if err != nil {
			return err
		}
		r.groups = len(entries)
		files = append(slices.Clip(files), entries...)
	}
	p, err := v.spawner.Prepare(spec.Temp, spec.Network)
	if err != nil {
		return err
	}
	if p != nil {
		f.release = sync.OnceFunc(p.handOver()) // called at the child's end, or by Start if there is no child
		defer func() { _ = p.Close() }()        // nothing was written to what it closes
		r.flags |= forkConfined
		if spec.Dir == "" { // its folder may not be among those that the sandbox allows
			r.refuge = cmp.Or(spec.Temp, "/")
		}
		r.namespaces, r.filter = len(p.Namespaces), p.Filter
		files = append(slices.Clip(files), p.Namespaces...)
		if p.Ruleset != nil {
			r.flags |= forkRuleset
			files = append(files, p.Ruleset)
		}
	}
	return v.request(r, files)
}

// request sends r with its files, and a large body in memory.
func (v *Server) request(r *forked, files []*os.File) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	if wireHead+len(body) > wirePacket {
		m, err := NewMemory("fork request", len(body))
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }()
		copy(m.Bytes(), body)
		r.flags |= forkInMemory
		files, body = append([]*os.File{m.File()}, files...), nil
	}
	v.sending.RLock()
	defer v.sending.RUnlock()
	v.mu.Lock()
	gone := v.gone
	v.mu.Unlock()
	if gone != nil {
		return gone
	}
	return withDescriptors(files, v.spawner.null, make([]uintptr, 0, len(files)), func(fds []uintptr) error {
		return v.send(append(r.head(), body...), fds)
	})
}

// send writes one message. It blocks while the server is slow to read, until the server
// ends.
func (v *Server) send(message []byte, fds []uintptr) error {
	numbers := make([]int, len(fds))
	for i, fd := range fds {
		numbers[i] = int(fd)
	}
	rights := unix.UnixRights(numbers...)
	var sent error
	err := v.raw.Write(func(fd uintptr) bool {
		for {
			sent = unix.Sendmsg(int(fd), message, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if !errors.Is(sent, unix.EINTR) {
				return !errors.Is(sent, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = sent
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, os.ErrClosed):
		<-v.dead // follows soon, and has the reason
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.gone
	default:
		return fmt.Errorf("confine: a request to the fork server: %w", err)
	}
}

// read receives messages until no more are needed.
func (v *Server) read() {
	defer close(v.done)
	err := v.raw.Read(func(fd uintptr) bool {
		for {
			more, err := v.take(int(fd))
			if err != nil {
				return !errors.Is(err, unix.EAGAIN)
			}
			if !more {
				return true
			}
		}
	})
	if err == nil {
		// End of file: the server ends, or it has lost its socket.
		timer := time.AfterFunc(closeTime, func() { _ = v.child.Kill() })
		defer timer.Stop()
	}
	<-v.dead
	v.conn.Close()
	v.receiving.Lock() // the goroutine that receives a message now is the last one
	v.buffer = nil
	v.receiving.Unlock()
	v.strays.Wait()
}

// drain handles all messages that have arrived.
func (v *Server) drain() {
	// An error means that the socket is closed, so no messages are left.
	_ = v.raw.Control(func(fd uintptr) {
		for {
			if more, err := v.take(int(fd)); err != nil || !more {
				return
			}
		}
	})
}

// take receives and handles one message. more is false after the end of file or a message
// that breaks the protocol.
func (v *Server) take(fd int) (more bool, err error) {
	v.receiving.Lock()
	defer v.receiving.Unlock()
	var oob [64]byte // for one descriptor, and some that should not come
	n, oobn, flags, _, err := unix.Recvmsg(fd, v.buffer, oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if errors.Is(err, unix.EINTR) {
		return true, nil
	}
	if errors.Is(err, unix.ECONNRESET) {
		return true, nil // the server died with requests unread; its messages can still be read
	}
	if err != nil {
		return false, err
	}
	pidfd := onlyDescriptor(oob[:oobn])
	if n == 0 && pidfd < 0 {
		return false, nil
	}
	r, err := parseReply(v.buffer[:n])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("confine: a message of the fork server is truncated")
	}
	if err == nil {
		err = v.handle(r, pidfd)
	} else if pidfd >= 0 {
		unix.Close(pidfd)
	}
	if err != nil {
		v.fail(err)
		return false, nil
	}
	return true, nil
}

// onlyDescriptor returns the descriptor in a control message, or -1; if it has several,
// they are closed.
func onlyDescriptor(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1
	}
	only := -1
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if only >= 0 {
				unix.Close(fd)
			} else {
				only = fd
			}
		}
	}
	return only
}

// fail records that the server broke the protocol; it is no longer usable.
func (v *Server) fail(err error) {
	v.mu.Lock()
	if v.gone == nil {
		v.gone = fmt.Errorf("%w: %w", ErrServerGone, err)
	}
	v.mu.Unlock()
	_ = v.child.Kill()
}

// handle handles one message; it owns pidfd. v.receiving is held.
func (v *Server) handle(r reply, pidfd int) error {
	switch r.kind {
	case wireReady, wireFailed:
		if pidfd >= 0 {
			unix.Close(pidfd)
		}
		var err error
		if r.kind == wireFailed {
			err = fmt.Errorf("confine: the fork server cannot be prepared: %s", r.text)
		}
		select {
		case v.ready <- err:
		default: // no caller waits for it
		}
		return nil
	}
	v.mu.Lock()
	f := v.forks[r.id]
	if f != nil && (r.kind == wireForked || pidfd < 0) {
		f.reported = true // the server sends no more about it
	}
	v.mu.Unlock()
	if pidfd >= 0 {
		if err := v.present(f, pidfd); err != nil {
			return err
		}
	}
	if f == nil {
		return nil
	}
	switch r.kind {
	case wireStarted:
		v.settle(f, nil)
	case wireRefused:
		v.settle(f, errors.New("confine: the fork server cannot start a child: "+r.text))
	}
	v.mu.Lock()
	if f.reported && f.given {
		delete(v.forks, f.id)
	}
	v.mu.Unlock()
	return nil
}

// present makes the child of f from pidfd, unless f has one already. A child that no
// caller waits for is killed. v.receiving is held.
func (v *Server) present(f *birth, pidfd int) error {
	if f != nil && f.child != nil {
		unix.Close(pidfd)
		return nil
	}
	var release func()
	if f != nil {
		release = f.release
	}
	c, err := v.spawner.adoptForked(pidfd, release)
	if err != nil {
		unix.Close(pidfd)
		return err
	}
	if f == nil {
		v.endStray(c)
		return nil
	}
	f.child = c
	close(f.born)
	v.mu.Lock()
	late := f.given
	v.mu.Unlock()
	if late {
		v.endStray(c)
	}
	return nil
}

// endStray kills a child that no caller wants; read waits for its end. v.receiving is held.
func (v *Server) endStray(c *Child) {
	_ = c.Kill() // it may have ended by itself
	v.strays.Go(func() { _, _ = c.Wait() })
}

// adoptForked makes a Child from a pidfd that a fork server sent. It accepts only
// children of this process, so that no message can make it kill anything else. When the
// child has ended, release, if not nil, is called.
func (s *Spawner) adoptForked(pidfd int, release func()) (*Child, error) {
	var info unix.Siginfo
	if err := waitExit(pidfd, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, &info, nil); err != nil {
		return nil, fmt.Errorf("confine: the fork server sent a descriptor that is not a child of this process: %w", err)
	}
	pid, err := pidOf(pidfd)
	if err != nil {
		return nil, err
	}
	c := newChild(pid, pidfd, func(c *Child) {
		if release != nil {
			release()
		}
		s.forget(c)
	})
	c.floor = 0 // a fork passes on no peak
	s.mu.Lock()
	s.children[c] = struct{}{}
	s.mu.Unlock()
	return c, nil
}

// pidOf returns the number of a pidfd's process, as this process sees it.
func pidOf(pidfd int) (int, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0, fmt.Errorf("confine: %w", err)
	}
	if _, after, found := bytes.Cut(text, []byte("\nPid:\t")); found {
		line, _, _ := bytes.Cut(after, []byte("\n"))
		if pid, err := strconv.Atoi(string(line)); err == nil && pid > 0 {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("confine: a process of the fork server has no process ID here: %w", syscall.ESRCH)
}

// hasEnded reports whether the process has ended, without reaping it.
func (c *Child) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return true
	}
	var info unix.Siginfo
	err := waitExit(c.pidfd, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, &info, nil)
	return err != nil || info.Signo != 0
}

// finish wakes read when no more messages are expected.
func (v *Server) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.buried && v.open == 0 {
		_ = v.conn.SetReadDeadline(time.Unix(1, 0))
	}
}
