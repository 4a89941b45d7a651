package confine

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A host that is not root may have capabilities that every program inherits. What
// gains no rights does not get those either.
func TestAmbientCapabilitiesEndAtTheHost(t *testing.T) {
	t.Parallel()
	const bit = 1 << unix.CAP_NET_BIND_SERVICE
	type found struct {
		before, after string
		err           error
	}
	results := make(chan found)
	onOwnThread(func() { // has rights of its own; waited for below
		var f found
		defer func() { results <- f }()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		if f.err = unix.Capget(&header, &sets[0]); f.err != nil {
			return
		}
		sets[0].Inheritable |= bit
		if f.err = unix.Capset(&header, &sets[0]); f.err != nil {
			return
		}
		if f.err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_BIND_SERVICE, 0, 0); f.err != nil {
			return
		}
		f.before = ambient()
		f.err = Profile{NoNewPrivs: true}.apply()
		f.after = ambient()
	})
	f := <-results
	if errors.Is(f.err, unix.EPERM) {
		t.Skip("this user has no capability that it could hand on")
	}
	if f.err != nil {
		t.Fatal(f.err)
	}
	if f.before != "0000000000000400" || f.after != "0000000000000000" {
		t.Errorf("the ambient set was %s and is %s", f.before, f.after)
	}
}

// ambient reads the set of the calling thread.
func ambient() string {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(text), "CapAmb:\t")
	set, _, _ := strings.Cut(rest, "\n")
	return set
}
