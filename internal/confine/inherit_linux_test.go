package confine

import (
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// leave makes a descriptor that is not close-on-exec, from least on.
func leave(t *testing.T, least int) int {
	t.Helper()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD, least)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestMarkingDescriptors is not parallel: other starts would mark for it.
func TestMarkingDescriptors(t *testing.T) {
	for name, mark := range map[string]func() error{"call": CloseOnExec, "list": markDescriptors, "numbers": markNumbers} {
		var left []int
		for _, least := range []int{20, 98, 500} {
			left = append(left, leave(t, least))
		}
		if err := mark(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, fd := range left {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: descriptor %d has flags %#x (%v), want close-on-exec", name, fd, flags, err)
			}
		}
		for fd := range firstOther {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != 0 {
				t.Errorf("%s: standard descriptor %d has flags %#x (%v), want none", name, fd, flags, err)
			}
		}
	}
}

// TestDescriptorsOfChildren is not parallel for the same reason.
func TestDescriptorsOfChildren(t *testing.T) {
	const script = "n=0; while [ $n -lt 300 ]; do [ -e /proc/self/fd/$n ] && printf '%s ' $n; n=$((n+1)); done"
	for name, p := range map[string]Profile{
		"unguarded": {}, "guarded": {Guard: true}, "strict": {Guard: true, GuardAlone: true, Strict: &Strict{}},
	} {
		t.Run(name, func(t *testing.T) {
			if p.Strict != nil {
				needStrict(t)
			}
			s := newSpawner(t, p)
			leave(t, 98)
			child, host, err := HostReadPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			c := begin(t, s, shell(script, nil, child, nil, child))
			child.Close()
			if out, err := io.ReadAll(host); err != nil || string(out) != "0 1 2 3 " {
				t.Errorf("the child has descriptors %q (%v), want those named for it", out, err)
			}
			if _, err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDescriptorsOfTheGuard is not parallel for the same reason.
func TestDescriptorsOfTheGuard(t *testing.T) {
	needGuard(t, newSpawner(t, Profile{Guard: true}))
	leave(t, 98)
	g, err := startGuard(false)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.pid))
	if err != nil || len(all) != 1 || all[0].Name() != "0" {
		t.Errorf("the guard has descriptors %v (%v), want its link", all, err)
	}
	if !g.release() {
		t.Fatal("somebody else has the guard of this test")
	}
	<-g.gone
}
