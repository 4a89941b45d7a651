package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// readArchive lists the entries of an archive, by the rules of cpio(5).
func readArchive(t *testing.T, b []byte) []string {
	t.Helper()
	var all []string
	at := 0
	take := func(n int) []byte {
		if at+n > len(b) {
			t.Fatalf("the archive ends at %d, want %d", len(b), at+n)
		}
		at += n
		return b[at-n : at]
	}
	pad := func() { take(-at & 3) }
	for {
		if magic := string(take(6)); magic != "070701" {
			t.Fatalf("entry %d begins with %q", len(all), magic)
		}
		var fields [13]int64
		for i := range fields {
			v, err := strconv.ParseInt(string(take(8)), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			fields[i] = v
		}
		name := string(bytes.TrimSuffix(take(int(fields[11])), []byte{0}))
		pad()
		content := take(int(fields[6]))
		pad()
		if name == "TRAILER!!!" {
			if at != len(b) {
				t.Errorf("%d bytes after the end", len(b)-at)
			}
			return all
		}
		all = append(all, fmt.Sprintf("%s %o %q", name, fields[1], content))
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"in", ".git"} {
		if err := os.MkdirAll(filepath.Join(dir, "tree", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tree", "in", "data"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("in/data", filepath.Join(dir, "tree", "link")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := newArchive(&out)
	a.file("/etc/passwd", 0o644, []byte("root\n"))
	a.folder("/etc")
	a.link("dev/fd", "/proc/self/fd")
	a.copyTree("/a", filepath.Join(dir, "tree"))
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`etc 40755 ""`, `etc/passwd 100644 "root\n"`,
		`dev 40755 ""`, `dev/fd 120777 "/proc/self/fd"`,
		`a 40755 ""`, `a/in 40755 ""`, `a/in/data 100600 "12345"`, `a/link 120777 "in/data"`,
	}
	if got := readArchive(t, out.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestArchiveKeepsItsFirstError(t *testing.T) {
	t.Parallel()
	a := newArchive(io.Discard)
	a.copyTree("x", filepath.Join(t.TempDir(), "missing"))
	a.fail(errors.New("another one"))
	if err := a.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("close() = %v, want the error of the missing folder", err)
	}
	r, w := io.Pipe()
	r.Close()
	a = newArchive(w)
	a.folder("a/b")
	if err := a.close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("close() = %v, want the error of the writer", err)
	}
}
