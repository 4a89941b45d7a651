//go:build unix

package confine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestProgramPaths(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", root+"/home/user")
	t.Setenv("PATH", root+"/opt/lang/bin:"+os.Getenv("PATH"))
	makePrograms(t, root)
	for _, c := range []struct {
		path string
		want []string
	}{
		{"opt/lang/bin/lang3", []string{"opt/lang", "opt/lang/bin/lang3"}},
		{"opt/lang/bin/lang", []string{"opt/lang", "opt/lang/bin/lang", "opt/lang/bin/lang3"}},
		{"venv/bin/lang", []string{"opt/lang", "opt/lang/bin/lang", "opt/lang/bin/lang3", "venv", "venv/bin/lang"}},
		{"home/user/bin/tool", []string{"home/user/bin/tool", "home/user/lib"}},
		{"home/user/.local/bin/tool", []string{"home/user/.local/bin/tool", "opt/lang", "opt/lang/bin/lang", "opt/lang/bin/lang3"}},
		{"app/worker", []string{"app/worker"}},
		{"app/script", []string{"app/script", "opt/lang", "opt/lang/bin/lang", "opt/lang/bin/lang3", "venv", "venv/bin/lang"}},
		{"lone/bin/worker", []string{"lone/bin/worker"}},
		{"odd/self", []string{"odd/self"}},
		{"odd/loop", nil},
		{"missing", nil},
	} {
		for i := range c.want {
			c.want[i] = root + "/" + c.want[i]
		}
		if got := ProgramPaths(root + "/" + c.path); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q\nwant %q", c.path, got, c.want)
		}
	}
	if got := ProgramPaths("/bin/sh"); len(got) > 0 {
		t.Errorf("/bin/sh needs %q besides the system's folders", got)
	}
}

// makePrograms makes installations of all kinds below root.
func makePrograms(t *testing.T, root string) {
	t.Helper()
	folder := func(path string) { // made with what it is in
		if err := os.MkdirAll(root+"/"+path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := func(path, text string) {
		folder(filepath.Dir(path))
		if err := os.WriteFile(root+"/"+path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := func(path, target string) {
		folder(filepath.Dir(path))
		if err := os.Symlink(target, root+"/"+path); err != nil {
			t.Fatal(err)
		}
	}
	file("opt/lang/bin/lang3", "\x7fELF")
	folder("opt/lang/lib")
	link("opt/lang/bin/lang", "lang3")
	link("venv/bin/lang", root+"/opt/lang/bin/lang")
	file("venv/pyvenv.cfg", "")
	file("home/user/bin/tool", "\x7fELF")
	folder("home/user/lib")
	file("home/user/.local/bin/tool", "#!/usr/bin/env -S A=b lang -x\n")
	file("app/worker", "\x7fELF")
	file("app/script", "#!"+root+"/venv/bin/lang -u")
	file("lone/bin/worker", "")
	file("odd/self", "#!"+root+"/odd/self")
	link("odd/loop", "loop")
}
