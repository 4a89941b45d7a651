package confine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// watch waits for the end of the server and handles what it leaves behind.
func (v *Server) watch() {
	exit, err := v.child.Wait()
	_ = v.conn.SetWriteDeadline(time.Unix(1, 0)) // wakes callers that wait to send
	before := v.spawner.pids()
	found := v.unreported()
	// Every child that has reported has done so by now, or still has the server's name: a
	// child drops the name after its message, and no more children are made.
	v.drain()
	after := v.spawner.pids()
	lost := v.lose(exit, err)
	for _, pid := range found {
		if !before[pid] && !after[pid] {
			v.endUnreported(pid)
		}
	}
	for _, f := range lost {
		v.announce(f)
	}
	select {
	case v.ready <- fmt.Errorf("confine: the fork server ended with %v before it was ready", exit):
	default: // it was ready, or has reported why not
	}
	v.mu.Lock()
	v.buried = true
	v.mu.Unlock()
	close(v.dead)
	v.finish()
}

// lose ends the starts without a known child: they have failed.
func (v *Server) lose(exit Exit, err error) (lost []*birth) {
	v.receiving.Lock() // births get their children under it
	defer v.receiving.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone == nil {
		v.gone = fmt.Errorf("%w: it ended with %v", ErrServerGone, exit)
		if err != nil {
			v.gone = fmt.Errorf("%w: %w", ErrServerGone, err)
		}
	}
	for _, f := range v.forks {
		if !f.given && f.child == nil {
			f.given, f.err = true, v.gone
			v.open--
			lost = append(lost, f)
		}
	}
	return lost
}

// pids returns the numbers of all children that are not reaped.
func (s *Spawner) pids() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[int]bool, len(s.children))
	for c := range s.children {
		found[c.pid] = true
	}
	return found
}

// unreported finds children of this process that have the server's name: the server may
// have died between making a child and reporting it.
func (v *Server) unreported() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // a system without /proc has no fdinfo either, so it has no such child
	}
	var found []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && v.bears(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// bears reports whether process pid is a child of this one and has the server's name.
// Only this process reaps it, so the number is not reused.
func (v *Server) bears(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	name, rest, found := bytes.Cut(text, []byte(" ("+v.name+") "))
	fields := bytes.Fields(rest)
	return found && len(name) > 0 && len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid())
}

// endUnreported kills and reaps a child that was not reported.
func (v *Server) endUnreported(pid int) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it was reported after all, and reaped
	}
	// Check before adopting it: a child that was reported meanwhile has a Child already,
	// and must not get a second one, for which no goroutine would wait.
	if !v.bears(pid) {
		unix.Close(pidfd)
		return
	}
	c, err := v.spawner.adoptForked(pidfd, nil)
	if err != nil {
		unix.Close(pidfd)
		return
	}
	_ = c.Kill() // it may have ended by itself
	_, _ = c.Wait()
}
