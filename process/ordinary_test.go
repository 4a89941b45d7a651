//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/probe"
)

// ordinaryHost has a pool of each protocol under strict, whose workers look for
// the file secret, and says how that went.
func ordinaryHost(secret string) {
	look := "cat " + secret + " 2>/dev/null || echo none"
	for _, c := range []struct {
		config  Config
		name    string
		payload string
	}{
		{Config{Command: []string{self()}}, "upper", "text"},
		{Config{Command: []string{"sh", "-c", "while read -r x; do " + look + "; done"}, Protocol: Lines}, "", "x"},
		{Config{Command: []string{"sh", "-c", look}, Protocol: Exec}, "", "x"},
	} {
		c.config.Max, c.config.Sandbox.Profile = 2, ProfileStrict
		p, err := New(quick(c.config))
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		for range 3 {
			r, err := p.Execute(context.Background(), bullpen.Task{Name: c.name, Payload: []byte(c.payload)})
			fmt.Println(strings.TrimSpace(string(r.Payload)), err)
		}
		g := p.Guarantees()
		fmt.Println(g.NoFilesystem, g.NoNetwork, g.OrphanProof, p.Close())
	}
}

// TestStrictForAnOrdinaryUser: with user namespaces, such a user has the whole
// of ProfileStrict.
func TestStrictForAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("only root can become another user")
	}
	for _, f := range []probe.Feature{probe.UserNamespace(), probe.MountNamespace(), probe.Landlock(), probe.Seccomp()} {
		if !f.OK {
			t.Skip(f.Name + ": " + f.Detail)
		}
	}
	const nobody = 65534
	dir := t.TempDir()
	program, err := os.ReadFile(self())
	if err != nil {
		t.Fatal(err)
	}
	exe, secret := filepath.Join(dir, "exe"), filepath.Join(dir, "secret")
	syscall.ForkLock.RLock() // a child born meanwhile would hold the program open for writing
	err = os.WriteFile(exe, program, 0o755)
	syscall.ForkLock.RUnlock()
	if err := errors.Join(err,
		os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o755),
		os.WriteFile(secret, []byte("s3cret"), 0o600), os.Chown(secret, nobody, nobody),
	); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "ordinary-host", secret)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const promises = "true true true <nil>\n"
	want := strings.Repeat("TEXT <nil>\n", 3) + promises + strings.Repeat(strings.Repeat("none <nil>\n", 3)+promises, 2)
	if string(out) != want {
		t.Errorf("it says\n%s\nwant\n%s", out, want)
	}
}
