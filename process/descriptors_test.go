//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// leave opens path in the host as descriptor number and leaves it open across
// execve, as a library in C does, or who started the host.
func leave(t *testing.T, path string, flags, number int) {
	t.Helper()
	if _, err := os.Lstat(fmt.Sprintf("/proc/self/fd/%d", number)); err == nil {
		t.Fatalf("descriptor %d is in use", number)
	}
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := syscall.Dup3(int(file.Fd()), number, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(number) })
}

// shellInherited has a shell do as inherited does.
var shellInherited = fmt.Sprintf(`n=0; while [ $n -lt %d ]; do [ -e /proc/self/fd/$n ] && printf '%%s ' $n; n=$((n+1)); done; echo`, mostDescriptors)

// pythonInherited does so in a worker of the SDK.
const pythonInherited = `
import os
import bullpen

@bullpen.task
def inherited(payload: bytes) -> bytes:
    names = (int(name) for name in os.listdir("/proc/self/fd"))
    return " ".join(str(fd) for fd in sorted(names) if os.path.exists("/proc/self/fd/%d" % fd) and os.get_inheritable(fd)).encode()

bullpen.run()
`

// TestDescriptorsOfTheHost is not parallel: what it leaves open is for its own
// pools to be kept from.
func TestDescriptorsOfTheHost(t *testing.T) {
	for _, profile := range []Profile{ProfileNone, ProfileDefault, ProfileStrict} {
		for name, c := range map[string]struct {
			config Config
			task   string
			files  int // the first so many descriptors may be open
		}{
			"frames":  {Config{Command: []string{self()}}, "inherited", 6},
			"lines":   {Config{Command: []string{"sh", "-c", "while read -r x; do " + shellInherited + "; done"}, Protocol: Lines}, "", 3},
			"exec":    {Config{Command: []string{"sh", "-c", shellInherited}, Protocol: Exec}, "", 3},
			"preload": {Config{Preload: []string{"json"}}, "inherited", 6},
		} {
			t.Run(profile.String()+"/"+name, func(t *testing.T) {
				if c.config.Preload != nil {
					c.config = preloaded(t, pythonInherited)
				}
				c.config.Max, c.config.Sandbox.Profile = 1, profile
				if p, err := New(c.config); err != nil {
					t.Skip(err)
				} else if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				path := filepath.Join(dir, "secret")
				if err := os.WriteFile(path, []byte("s3cret"), 0o600); err != nil {
					t.Fatal(err)
				}
				leave(t, path, os.O_RDONLY, 28)
				p := open(t, c.config)
				leave(t, dir, os.O_RDONLY, 98) // after the pool was made
				leave(t, path, os.O_RDWR, 99)
				var want []string
				for fd := range c.files {
					want = append(want, fmt.Sprint(fd))
				}
				got := strings.Fields(do(t, p, c.task, "now"))
				if len(got) < 3 {
					t.Fatalf("the worker sees descriptors %v", got)
				}
				for _, fd := range got {
					if !slices.Contains(want, fd) {
						t.Errorf("the worker has got descriptors %v, want none beside %v", got, want)
						break
					}
				}
			})
		}
	}
}

// TestDescriptorsOfShims is not parallel, as TestDescriptorsOfTheHost.
func TestDescriptorsOfShims(t *testing.T) {
	dir := t.TempDir()
	seen, shim := filepath.Join(dir, "seen"), filepath.Join(dir, "python3.98")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\n[ -e /dev/fd/97 ] || touch "+seen+"\necho "+dir+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	leave(t, shim, os.O_RDONLY, 97)
	if got := behindShim(shim, []string{"PATH=/bin:/usr/bin"}, ""); got != shim {
		t.Errorf("the script became %s", got)
	}
	if _, err := os.Stat(seen); err != nil {
		t.Error("the script has a descriptor of the host: ", err)
	}
}
