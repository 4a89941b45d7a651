//go:build unix

package wasm

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/experimental/sys"
)

// folderWithLinks makes a folder with links that lead out of it, to a file above it.
func folderWithLinks(t *testing.T) (top, folder string) {
	t.Helper()
	top = t.TempDir()
	folder = filepath.Join(top, "mapped")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(folder, "sub"), 0o700),
		os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(folder, "sub", "file"), []byte("text"), 0o600),
		os.Symlink("../secret", filepath.Join(folder, "out")),
		os.Symlink("..", filepath.Join(folder, "up")),
		os.Symlink(filepath.Join(top, "secret"), filepath.Join(folder, "absolute")),
		os.Symlink("../new", filepath.Join(folder, "dangling")),
		os.Symlink("sub/file", filepath.Join(folder, "in")),
		syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return top, folder
}

// TestNamesStayInside tries names that lead out of a mapped folder.
func TestNamesStayInside(t *testing.T) {
	t.Parallel()
	top, folder := folderWithLinks(t)
	m, err := openMount(Mount{Host: folder, Writable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.root.Close() }()
	for _, name := range []string{"sub/file", "in", "./sub//file", "sub/../sub/file"} {
		f, errno := m.OpenFile(name, sys.O_RDONLY, 0)
		if errno != 0 {
			t.Errorf("%s cannot be opened: %v", name, errno)
			continue
		}
		_ = f.Close()
	}
	for _, name := range []string{
		"..", "../secret", "/etc/passwd", "sub/../../secret", "out", "up", "up/secret", "absolute", "dangling", "up/new", "../new", "pipe",
	} {
		for what, errno := range map[string]sys.Errno{
			"read":   opened(m.OpenFile(name, sys.O_RDONLY, 0)),
			"create": opened(m.OpenFile(name, sys.O_CREAT|sys.O_RDWR, 0o600)),
			"rename": m.Rename(name, "sub/renamed"),
			"move":   m.Rename("sub/file", name),
			"chmod":  m.Chmod(name, 0o777),
			"touch":  m.Utimens(name, 0, 0),
		} {
			if errno == 0 {
				t.Errorf("%s of %s was allowed", what, name)
			}
		}
	}
	for _, name := range []string{"../secret", "up/secret", ".."} {
		_, stat := m.Lstat(name)
		_, link := m.Readlink(name)
		if m.Unlink(name) == 0 || m.Rmdir(name) == 0 || m.Mkdir(name+"/x", 0o700) == 0 || stat == 0 || link == 0 {
			t.Errorf("%s was reached", name)
		}
	}
	if m.Symlink("x", "sub/link") == 0 || m.Link("sub/file", "sub/link") == 0 {
		t.Error("a guest can make links")
	}
	if text, err := os.ReadFile(filepath.Join(top, "secret")); err != nil || string(text) != "secret" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(top, "new")); err == nil {
		t.Error("a file was made outside")
	}
}

func opened(f sys.File, errno sys.Errno) sys.Errno {
	if errno == 0 {
		_ = f.Close()
	}
	return errno
}

func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := openMount(Mount{Host: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.root.Close() }()
	if errno := opened(m.OpenFile("file", sys.O_RDONLY, 0)); errno != 0 {
		t.Errorf("a file cannot be read: %v", errno)
	}
	if opened(m.OpenFile("file", sys.O_RDWR, 0)) == 0 || m.Unlink("file") == 0 || m.Mkdir("new", 0o700) == 0 || m.Rename("file", "other") == 0 {
		t.Error("a read-only folder can be changed")
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "cache")
	code, err := os.ReadFile(filepath.Join("..", "examples", "wasm", "testdata", "words-rust.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	files := func() (n int) {
		err := filepath.WalkDir(folder, func(_ string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				n++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var took [2]time.Duration
	var made [2]int
	for n := range took {
		begun := time.Now()
		open(t, Config{Code: code, CacheDir: folder})
		took[n], made[n] = time.Since(begun), files()
	}
	t.Logf("compiled in %v, taken from the cache in %v", took[0], took[1])
	if made[0] == 0 || made[1] != made[0] {
		t.Errorf("the cache has %d files after the first start and %d after the second", made[0], made[1])
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Code: code, CacheDir: folder}); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a folder that all can write to gave %v", err)
	}
}
