//go:build amd64 || arm64

package confine

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// underFilter runs something in a process that is denied calls.
func underFilter(t *testing.T, calls []deniedCall) func(run func() ([]byte, error)) ([]byte, error) {
	t.Helper()
	program, err := buildFilter(filterArch, 1<<31, calls)
	if err != nil {
		t.Fatal(err)
	}
	return func(run func() ([]byte, error)) (out []byte, err error) {
		done := make(chan struct{})
		onOwnThread(func() { // ends with what it runs; waited for below
			defer close(done)
			if err = errors.Join(setNoNewPrivs(), installFilter(program)); err == nil {
				out, err = run()
			}
		})
		<-done
		return out, err
	}
}

// TestStrictInADefaultContainer: where the container's filter forbids
// namespaces, or what is done in them, best effort closes what landlock and the
// filter can close, and names the rest.
func TestStrictInADefaultContainer(t *testing.T) {
	needScopes(t)
	for name, c := range map[string]struct {
		denied  []deniedCall
		missing []string
	}{
		"no namespaces": {[]deniedCall{
			{"unshare", unix.SYS_UNSHARE, never}, {"setns", unix.SYS_SETNS, never}, {"mount", unix.SYS_MOUNT, never},
			{"clone (new namespaces)", unix.SYS_CLONE, []clause{{unix.EPERM, []condition{{0, anyBit, namespaceFlags}}}}}, {"clone3", unix.SYS_CLONE3, unknown},
		}, []string{"mount namespace", "PID namespace"}},
		"no mounts": {[]deniedCall{{"mount", unix.SYS_MOUNT, never}}, []string{"user namespace", "mount namespace", "PID namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			checkBestEffort(t, underFilter(t, c.denied), c.missing)
		})
	}
}

// checkBestEffort has a host try what its children can reach without namespaces.
func checkBestEffort(t *testing.T, under func(run func() ([]byte, error)) ([]byte, error), missing []string) {
	t.Helper()
	found := asOrdinary(t, under,
		want{"read DIR/secret/file", "denied"}, want{"stat DIR/secret", ""}, want{"write DIR/write/new", ""}, want{"write DIR/temp/new", ""},
		want{"write DIR/exe", "denied"}, want{"read /etc/passwd", ""}, want{"dial tcp 127.0.0.1:1", "family not supported"},
		want{"socket 1", "family not supported"}, want{"shm 4711", "not implemented"}, want{"mqueue x", "not implemented"},
		want{"kill 1", "not permitted"}, want{"prlimit 1", "not permitted"}, want{"prlimit 0", ""}, want{"ptrace", "not permitted"},
	)
	for _, says := range append(missing, "use best effort") {
		if !strings.Contains(found.Refused, says) {
			t.Errorf("%q is not in the refusal: %s", says, found.Refused)
		}
	}
	all := strings.Join(found.Missing, "; ")
	for _, says := range append(missing, "names of outside files and processes", "can outlive the host") {
		if !strings.Contains(all, says) {
			t.Errorf("%q is not said to be missing: %s", says, all)
		}
	}
	if len(found.Missing) != len(missing) || !found.NoFiles || !found.NoNetwork || found.OrphanProof {
		t.Errorf("it promises %+v", found)
	}
}
