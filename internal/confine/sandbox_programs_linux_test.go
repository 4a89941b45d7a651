package confine

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStrictPrograms runs programs of all kinds in the sandbox.
func TestStrictPrograms(t *testing.T) {
	needStrict(t)
	source := temporary(t)
	for name, text := range map[string]string{
		"hello.c":    `#include <stdio.h>` + "\n" + `int main(void) { puts("hello"); return 0; }`,
		"Hello.java": `class Hello { public static void main(String[] a) throws Exception { var t = new Thread(() -> System.out.println("hello")); t.start(); t.join(); } }`,
	} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const python = `
import sys, os, json, tempfile, subprocess, threading, multiprocessing as m
q = m.Queue()
p = m.Process(target=q.put, args=(1,)); p.start(); q.get(); p.join()
t = threading.Thread(target=lambda: None); t.start(); t.join()
with tempfile.NamedTemporaryFile() as f: f.write(b"x")
assert subprocess.check_output(["/bin/echo", "x"]) == b"x\n"
print("hello")`
	const node = `const w = require("worker_threads"), c = require("child_process"), f = require("fs"), o = require("os");
f.mkdtempSync(o.tmpdir() + "/x"); if (c.execSync("echo x").toString() !== "x\n") throw 1;
new w.Worker("require('fs').readdirSync('/usr')", {eval: true}).on("exit", () => console.log("hello"))`
	for _, c := range []struct {
		name    string
		make    []string // a command run first; not in the sandbox
		program string
		args    []string
	}{
		{"sh", nil, "sh", []string{"-c", "echo hello | cat"}},
		{"static", []string{"gcc", "-static", "-o", source + "/hello", source + "/hello.c"}, source + "/hello", nil},
		{"dynamic", []string{"gcc", "-o", source + "/dynamic", source + "/hello.c"}, source + "/dynamic", nil},
		{"python", nil, "python3", []string{"-c", python}},
		{"node", nil, "node", []string{"-e", node}},
		{"java", []string{"javac", "-d", source, source + "/Hello.java"}, "java", []string{"-cp", source, "Hello"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.make != nil {
				if _, err := exec.LookPath(c.make[0]); err != nil {
					t.Skip(err)
				}
				if out, err := exec.CommandContext(t.Context(), c.make[0], c.make[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			path, err := exec.LookPath(c.program)
			if err != nil {
				t.Skip(err)
			}
			if c.name == "python" { // it may be a script that looks for the real one
				out, err := exec.CommandContext(t.Context(), path, "-c", "import sys; print(sys.executable)").Output()
				if err != nil {
					t.Skip(err)
				}
				path = strings.TrimSpace(string(out))
			}
			hello(t, strict(t, Profile{Guard: true}, Strict{Read: append(ProgramPaths(path), source)}), path, c.args...)
		})
	}
}

// hello runs a program that has to say hello.
func hello(t *testing.T, s *Spawner, path string, args ...string) {
	t.Helper()
	child, host := readPipe(t)
	childErr, hostErr := readPipe(t)
	temp := temporary(t)
	c := begin(t, s, Spec{
		Path: path, Args: append([]string{path}, args...), Temp: temp, Files: []*os.File{nil, child, childErr},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=" + temp, "TMPDIR=" + temp},
	})
	child.Close()
	childErr.Close()
	complaint, err := io.ReadAll(hostErr)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(host)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 || string(out) != "hello\n" {
		t.Errorf("%v, %v: %q %s", e, err, out, complaint)
	}
	if len(bytes.TrimSpace(complaint)) > 0 {
		t.Errorf("it complains: %s", complaint)
	}
}
