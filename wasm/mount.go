package wasm

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	wazerosys "github.com/tetratelabs/wazero/sys"
)

// mount is a mapped folder. wazero's own leads out of the folder through "..", through links,
// and blocks on pipes; here a name must stay inside, guests make no symbolic links, and only
// files and folders are opened.
type mount struct {
	sys.UnimplementedFS

	inner sys.FS
	root  *os.Root
}

var _ sys.FS = (*mount)(nil)

func openMount(m Mount) (*mount, error) {
	root, err := os.OpenRoot(m.Host)
	if err != nil {
		return nil, err
	}
	folder := &mount{inner: sysfs.DirFS(m.Host), root: root}
	if !m.Writable {
		folder.inner = &sysfs.ReadFS{FS: folder.inner}
	}
	return folder, nil
}

// inside checks that a name leads to something in the folder, and that what it leads to can
// be opened without waiting. A name that does not exist yet is inside if its folder is. The
// guests of this program cannot make a symbolic link between the check and the use.
func (m *mount) inside(name string) sys.Errno {
	name = clean(name)
	if !local(name) {
		return sys.EACCES
	}
	info, err := m.root.Stat(filepath.FromSlash(name))
	switch {
	case err == nil:
		if info.IsDir() || info.Mode().IsRegular() {
			return 0
		}
		return sys.EACCES
	case !os.IsNotExist(err):
		return sys.EACCES
	}
	// A link that leads nowhere would be made to lead somewhere.
	if _, err := m.root.Lstat(filepath.FromSlash(name)); err == nil {
		return sys.EACCES
	}
	if parent := path.Dir(name); parent != "." {
		return m.inside(parent)
	}
	return 0
}

// itself is inside for operations on a link itself.
func (m *mount) itself(name string) sys.Errno {
	name = clean(name)
	if !local(name) {
		return sys.EACCES
	}
	if name == "." {
		return 0
	}
	return m.inside(path.Dir(name))
}

// local reports whether a name stays inside by its text. Guests separate names by slashes
// only.
func local(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && (runtime.GOOS != "windows" || !strings.ContainsRune(name, '\\'))
}

func clean(name string) string {
	if name == "" {
		return "."
	}
	return path.Clean(name)
}

// OpenFile implements sys.FS, as do the methods below.
func (m *mount) OpenFile(name string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	if errno := m.inside(name); errno != 0 {
		return nil, errno
	}
	return m.inner.OpenFile(name, flag, perm)
}

func (m *mount) Lstat(name string) (wazerosys.Stat_t, sys.Errno) {
	if errno := m.itself(name); errno != 0 {
		return wazerosys.Stat_t{}, errno
	}
	return m.inner.Lstat(name)
}

func (m *mount) Stat(name string) (wazerosys.Stat_t, sys.Errno) {
	if errno := m.inside(name); errno != 0 {
		return wazerosys.Stat_t{}, errno
	}
	return m.inner.Stat(name)
}

func (m *mount) Mkdir(name string, perm fs.FileMode) sys.Errno {
	if errno := m.inside(name); errno != 0 {
		return errno
	}
	return m.inner.Mkdir(name, perm)
}

func (m *mount) Chmod(name string, perm fs.FileMode) sys.Errno {
	if errno := m.inside(name); errno != 0 {
		return errno
	}
	return m.inner.Chmod(name, perm)
}

func (m *mount) Rename(from, to string) sys.Errno {
	// A link that is moved could lead elsewhere from its new place.
	for _, name := range []string{from, to} {
		if errno := m.inside(name); errno != 0 {
			return errno
		}
	}
	if info, err := m.root.Lstat(filepath.FromSlash(clean(from))); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return sys.EACCES
	}
	return m.inner.Rename(from, to)
}

func (m *mount) Rmdir(name string) sys.Errno {
	if errno := m.itself(name); errno != 0 {
		return errno
	}
	return m.inner.Rmdir(name)
}

func (m *mount) Unlink(name string) sys.Errno {
	if errno := m.itself(name); errno != 0 {
		return errno
	}
	return m.inner.Unlink(name)
}

func (m *mount) Readlink(name string) (string, sys.Errno) {
	if errno := m.itself(name); errno != 0 {
		return "", errno
	}
	return m.inner.Readlink(name)
}

func (m *mount) Utimens(name string, atim, mtim int64) sys.Errno {
	if errno := m.inside(name); errno != 0 {
		return errno
	}
	return m.inner.Utimens(name, atim, mtim)
}
