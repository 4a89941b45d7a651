package process

import (
	"slices"
	"strings"
	"testing"
)

func TestZygoteCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string // words
		options string
		worker  string
		err     string
	}{
		{command: "python3 w.py", worker: "w.py"},
		{command: "python3 w.py -m x --flag", worker: "w.py -m x --flag"},
		{command: "python3 -u -O w.py a", options: "-u -O", worker: "w.py a"},
		{command: "python3 -uOO -Xdev -X utf8 -Wignore -W error::x -m pkg.mod a b", options: "-uOO -X dev -X utf8 -W ignore -W error::x", worker: "-m pkg.mod a b"},
		{command: "python3 -mpkg a", worker: "-m pkg a"},
		{command: "python3 -Impkg", options: "-I", worker: "-m pkg"},
		{command: "python3 -Ic pass x", options: "-I", worker: "-c pass x"},
		{command: "python3 -cpass", worker: "-c pass"},
		{command: "python3 -IX dev w.py", options: "-IX dev", worker: "w.py"},
		{command: "python3 -- -odd.py", worker: "-odd.py"},
		{command: "python3 --check-hash-based-pycs never w.py", options: "--check-hash-based-pycs never", worker: "w.py"},
		{command: "python3", err: "standard input"},
		{command: "python3 -u", err: "standard input"},
		{command: "python3 -u -", err: "standard input"},
		{command: "python3 --", err: "standard input"},
		{command: "python3 -m", err: "nothing follows -m"},
		{command: "python3 -uc", err: "nothing follows -c"},
		{command: "python3 -W", err: "nothing follows -W"},
		{command: "python3 --check-hash-based-pycs", err: "nothing follows"},
		{command: "python3 --version", err: "cannot be combined with --version"},
		{command: "python3 -V", err: "cannot be combined with -V"},
		{command: "python3 -ui w.py", err: "cannot be combined with -i"},
		{command: "python3 -Z w.py", err: "unknown Python option -Z"},
		{command: "node w.js", err: `"/usr/bin/node" is not a Python`},
	} {
		command := strings.Fields(c.command)
		args, worker, err := zygoteCommand("/usr/bin/"+command[0], command, []string{"numpy", "a.b_1"})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v; want %q", c.command, err, c.err)
			}
			continue
		}
		want := append(append(strings.Fields("/usr/bin/python3 "+c.options), "-c", zygoteLoader, strings.Fields(c.worker)[0], "bullpen?"), "numpy", "a.b_1")
		if err != nil || !slices.Equal(args, want) || strings.Join(worker, " ") != c.worker {
			t.Errorf("%s:\n%q\n%q, %v", c.command, args, worker, err)
		}
	}
}

func TestZygotePreloadNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "a.", ".a", "a-b", "1a", "a b", "a?", "-c", "a\x00"} {
		if _, _, err := zygoteCommand("/usr/bin/python3", []string{"python3", "w.py"}, []string{name}); err == nil {
			t.Errorf("Preload %q was taken", name)
		}
	}
	for _, name := range []string{"a", "_a.b2", "größe", "a.b.c"} {
		if _, _, err := zygoteCommand("/usr/bin/python3.12", []string{"python3", "w.py"}, []string{name}); err != nil {
			t.Errorf("Preload %q: %v", name, err)
		}
	}
}

func FuzzZygoteCommand(f *testing.F) {
	f.Add("-u\n-X\ndev\nw.py\na")
	f.Add("-Impkg\nx")
	f.Add("-cpass")
	f.Add("--\n-")
	f.Fuzz(func(t *testing.T, text string) {
		given := strings.Split(text, "\n")
		args, worker, err := zygoteCommand("python3", append([]string{"python3"}, given...), nil)
		if err != nil {
			return
		}
		at := slices.Index(args, zygoteLoader)
		if at < 2 || args[at-1] != "-c" || len(worker) == 0 || args[at+1] != worker[0] {
			t.Fatalf("%q: %q, %q", given, args, worker)
		}
		// Nothing is lost or added but the ends of clusters and a "--".
		letters := func(list []string) string {
			return strings.ReplaceAll(strings.Join(list, ""), "-", "")
		}
		if got, want := letters(args[1:at-1])+letters(worker), letters(given); got != want {
			t.Fatalf("%q became %q and %q", given, args, worker)
		}
	})
}
