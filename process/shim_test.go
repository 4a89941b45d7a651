//go:build unix

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A version manager's script is asked once, and workers start without it.
func TestShimIsResolvedOnce(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	dir := t.TempDir()
	count, shim := filepath.Join(dir, "count"), filepath.Join(dir, "python3.99")
	// Plays the interpreter: asked where it is, it names the real one.
	script := "#!/bin/sh\necho x >>" + count + "\nif [ \"$1\" = -c ]; then echo " + real + "; else exec " + real + " \"$@\"; fi\n"
	if err := os.WriteFile(shim, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "worker")
	if err := os.WriteFile(program, []byte(`while read -r x; do echo "$x $0"; done`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p := linesPool(t, nil, shim, program)
		if got := do(t, p, "", "hello"); got != "hello "+program {
			t.Errorf("the answer is %q", got)
		}
	}
	asked, err := os.ReadFile(count)
	if n := strings.Count(string(asked), "x"); n != 1 || err != nil {
		t.Errorf("the script ran %d times: %v", n, err)
	}
}

func TestWhatIsNoShim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{
		write("python3", "\x7fELF"),
		write("python-deploy", "#!/bin/sh\ntouch "+dir+"/ran; echo /bin/sh\n"),
		write("python3.9", "#!/bin/sh\nexit 3\n"),
		write("node", "#!/bin/sh\necho relative/path\n"),
		write("ruby", "#!/bin/sh\necho "+dir+"/nowhere\n"),
		write("php", "#!/bin/sh\necho "+filepath.Join(dir, "ruby")+"\n"),
		write("worker", "#!/bin/sh\necho /bin/sh\n"),
		filepath.Join(dir, "python-missing"),
	} {
		if got := behindShim(path, []string{"PATH=/bin:/usr/bin"}, ""); got != path {
			t.Errorf("%s became %s", path, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a script that is no interpreter was run")
	}
}
