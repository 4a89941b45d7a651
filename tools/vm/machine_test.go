package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeEmulator puts a shell script in the place of the emulator.
func fakeEmulator(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, emulator), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestMachineEnds(t *testing.T) {
	for _, c := range []struct {
		name, script   string
		code           int
		out, log, says string // parts
	}{
		{"passed", `echo boot >&3; echo lines >&4; echo exit 0 >&5`, 0, "lines\n", "", ""},
		{"failed", `echo lines >&4; echo exit 7 >&5`, 7, "lines\n", "", ""},
		{"crashed", `echo lines >&4; printf 'panic\r\n' >&3`, 1, "lines\n", "panic\n", "without a verdict"},
		{"failed to start", `echo no such kernel >&2; exit 1`, 1, "", "no such kernel\n", "exit status 1"},
		{"hung", `echo lines >&4; echo boot >&3; exec sleep 1000`, 1, "lines\n", "boot\n", "did not end within"},
		{"broken verdict", `echo exit now >&5`, 1, "", "", `verdict "exit now\n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeEmulator(t, c.script)
			m := machine{kernel: "k", files: "f", accel: "tcg", cpus: 1, memory: 1, limit: time.Minute}
			if c.name == "hung" {
				m.limit = 200 * time.Millisecond
			}
			var out, log bytes.Buffer
			code, err := m.run(t.Context(), &out, &log)
			if code != c.code || (err == nil) != (c.says == "") {
				t.Errorf("got %d, %v; want %d, %q", code, err, c.code, c.says)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want it to say %q", err, c.says)
			}
			if out.String() != c.out && c.name != "hung" {
				t.Errorf("output %q, want %q", out.String(), c.out)
			}
			if !strings.Contains(log.String(), c.log) && c.name != "hung" {
				t.Errorf("log %q, want %q in it", log.String(), c.log)
			}
		})
	}
}

func TestMachineWithoutEmulator(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	if code, err := (&machine{limit: time.Minute}).run(t.Context(), &out, &out); code != 1 || err == nil || !strings.Contains(err.Error(), emulator) {
		t.Errorf("got %d, %v", code, err)
	}
}

func TestArgumentsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"", "usage"},
		{"-kernel k -init i -root r", "usage"},
		{"-kernel k -init i -root r -place moon test", `"moon" is none of`},
		{"-kernel k -init missing -root r test", "packing"},
	} {
		if code, err := run(strings.Fields(c.args)); code == 0 || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %d, %v; want %q", c.args, code, err, c.says)
		}
	}
}
