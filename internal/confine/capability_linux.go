package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dropCapabilities removes all capabilities from the calling thread, including those that
// programs could bring it. Only a process with CAP_SETPCAP can empty the bounding set;
// for others no_new_privs has the same effect.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			break // behind the last capability, or without the right
		}
		if err != nil {
			return fmt.Errorf("emptying the capability bounding set: %w", err)
		}
	}
	// Emptying the permitted and the inheritable set empties the ambient one.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// setNoNewPrivs keeps the calling thread and its children from gaining rights by running
// programs.
func setNoNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// clearAmbient keeps the calling thread from passing capabilities on to the programs that
// its children run: a service manager may have given some to a host that is not root
// (capabilities(7)).
func clearAmbient() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // a kernel before 4.3 has none
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	return nil
}
