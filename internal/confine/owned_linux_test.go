package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnFolder(t *testing.T) {
	parent := t.TempDir()
	mine, err := ownFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.release()
	if !ownedName(filepath.Base(mine.path)) {
		t.Errorf("%s is named like no host's", mine.path)
	}
	dead, err := ownFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	dead.release() // as the end of its process would
	target := t.TempDir()
	name := filepath.Base(dead.path)
	for _, other := range []string{"bullpen-1", "bullpen-x-" + name[len(name)-16:], "bullpen-1-0123", "bullpen-probe-1-2", "other"} {
		if err := os.Mkdir(filepath.Join(parent, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, filepath.Join(parent, "bullpen-1-0123456789abcdef")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(parent, "bullpen-2-0123456789abcdef")
		if err := errors.Join(os.Mkdir(foreign, 0o700), os.Chown(foreign, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
	}
	var removed []string
	failure := errors.New("cannot be removed")
	remove := func(path string) error {
		removed = append(removed, path)
		return failure
	}
	for range 2 { // what cannot be removed is tried again
		if err := sweep(parent, remove); !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
	}
	if want := []string{dead.path, dead.path}; !slices.Equal(removed, want) {
		t.Errorf("got %v, want %v", removed, want)
	}
	if err := sweep(filepath.Join(parent, "missing"), remove); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no parent: %v", err)
	}
	if _, err := ownFolder(filepath.Join(parent, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no parent: %v", err)
	}
}

// TestOwnFolderRace has hosts come while others sweep: nobody's folder is
// taken, and all of the dead are.
func TestOwnFolderRace(t *testing.T) {
	parent := t.TempDir()
	var held atomic.Int64
	var hosts sync.WaitGroup
	for range 8 {
		hosts.Go(func() { // ends after its rounds; waited for below
			for range 50 {
				o, err := ownFolder(parent)
				if err != nil {
					t.Error(err)
					return
				}
				if err := sweep(parent, os.Remove); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(o.path); err != nil {
					t.Errorf("swept while it was held: %v", err)
				}
				held.Add(1)
				o.release()
			}
		})
	}
	hosts.Wait()
	if err := sweep(parent, os.Remove); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 || held.Load() != 400 {
		t.Errorf("%d are left, %d were held (%v)", len(left), held.Load(), err)
	}
}

func newScratch(t testing.TB, parent string) *Scratch {
	t.Helper()
	s, err := OpenScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(s.own.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", s.own.path, err)
		}
	})
	return s
}

func TestScratch(t *testing.T) {
	parent := t.TempDir()
	dead, err := ownFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := fillFolder(dead.path); err != nil {
		t.Fatal(err)
	}
	dead.release()
	s := newScratch(t, parent)
	if _, err := os.Lstat(dead.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("that of a dead host is left: %v", err)
	}
	a, err := s.Folder()
	b, otherErr := s.Folder()
	if err != nil || otherErr != nil || a == b || !strings.HasPrefix(filepath.Base(a), "worker") {
		t.Fatal(a, b, err, otherErr)
	}
	for _, path := range []string{a, s.own.path} {
		if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	for _, path := range []string{"", "/", parent, s.own.path, s.own.path + "/" + trashName, a + "/below", a + "/../../x", filepath.Base(a)} {
		if err := s.Remove(path); err == nil {
			t.Errorf("Remove(%q) was done", path)
		}
	}
	for range 2 {
		if err := s.Remove(a); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(s.Close(), s.Close(), s.Remove(b)); err != nil {
		t.Error(err)
	}
	if _, err := s.Folder(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestScratchParent(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenScratch(open); err == nil || !strings.Contains(err.Error(), "sticky") {
		t.Errorf("a folder in which all may rename: %v", err)
	}
	if _, err := OpenScratch(filepath.Join(open, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	real := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(open, "link"))
	if err := os.Symlink(real, os.TempDir()); err != nil {
		t.Fatal(err)
	}
	if s := newScratch(t, ""); filepath.Dir(s.own.path) != real {
		t.Errorf("%s is not in %s", s.own.path, real)
	}
}

const (
	fillDepth = 300 // paths are far longer than the system takes
	fillWidth = 300
)

// fillFolder fills a folder with all that is hard to remove.
func fillFolder(dir string) error {
	outside := filepath.Join(filepath.Dir(dir), "outside")
	err := errors.Join(
		os.MkdirAll(outside+"/keep", 0o700),
		os.Mkdir(dir+"/closed", 0o700), os.Mkdir(dir+"/closed/inner", 0o700), os.WriteFile(dir+"/closed/inner/file", nil, 0o400),
		os.Symlink(outside, dir+"/closed/link"), os.Symlink(outside, dir+"/link"), os.Symlink("missing", dir+"/dangling"),
		unix.Mkfifo(dir+"/pipe", 0o600),
		os.Chmod(dir+"/closed/inner", 0), os.Chmod(dir+"/closed", 0o500))
	for i := range fillWidth {
		err = errors.Join(err, os.Mkdir(fmt.Sprintf("%s/%d", dir, i), 0o500))
	}
	fd, openErr := openFolder(unix.AT_FDCWD, dir)
	err = errors.Join(err, openErr)
	for range fillDepth {
		var next int
		if err == nil {
			next, err = makeFolder(fd, strings.Repeat("deep", 50))
		}
		if err != nil {
			break
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	return err
}

// helperScratch fills and removes temporary folders.
func helperScratch() error {
	few := unix.Rlimit{Cur: 40, Max: 40} // descriptors
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		return err
	}
	s, err := OpenScratch("")
	if err != nil {
		return err
	}
	for range 2 { // one is left to Close
		dir, err := s.Folder()
		if err != nil {
			return err
		}
		if err := fillFolder(dir); err != nil {
			return err
		}
		if err := s.Remove(dir); err != nil {
			return err
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is left: %w", dir, err)
		}
	}
	dir, err := s.Folder()
	return errors.Join(err, fillFolder(dir), s.Close())
}

// TestScratchHard removes what is hard to remove, as this user and, if that is
// root, as one who may not do everything, with few descriptors.
func TestScratchHard(t *testing.T) {
	users := []uint32{uint32(os.Geteuid())}
	if os.Geteuid() == 0 {
		users = append(users, 65534)
	}
	for _, user := range users {
		t.Run(fmt.Sprint("user ", user), func(t *testing.T) {
			parent, err := os.MkdirTemp("", "scratch-test-*") //nolint:usetesting // other users may not enter that of the test
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(parent)
			if err := os.Chmod(parent, 0o777|os.ModeSticky); err != nil {
				t.Fatal(err)
			}
			cmd := helperCommand(t, "scratch", "TMPDIR="+parent)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, NoSetGroups: os.Geteuid() != 0}}
			if out, err := cmd.Output(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			left, err := os.ReadDir(parent)
			if err != nil || len(left) != 0 {
				t.Errorf("%v are left (%v)", left, err)
			}
		})
	}
}

// TestScratchMount wants a mount point in a temporary folder to be left as it
// is, and what it shows not to be touched.
func TestScratchMount(t *testing.T) {
	s := newScratch(t, t.TempDir())
	dir, err := s.Folder()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/mount", 0o700), os.WriteFile(elsewhere+"/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(elsewhere, dir+"/mount", "", unix.MS_BIND, ""); err != nil {
		t.Skip("nothing can be mounted here: " + err.Error())
	}
	err = s.Remove(dir)
	left, globErr := filepath.Glob(s.own.path + "/" + trashName + "/*/mount")
	if err == nil || globErr != nil || len(left) != 1 {
		t.Errorf("got %v; the mount is now %v", err, left)
	}
	if _, err := os.Stat(elsewhere + "/file"); err != nil {
		t.Errorf("outside of the folder: %v", err)
	}
	for _, path := range append(left, dir+"/mount") {
		_ = unix.Unmount(path, 0) // one of them is it
	}
}

func TestScratchConcurrent(t *testing.T) {
	s := newScratch(t, t.TempDir())
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() { // ends after its rounds; waited for below
			for range 20 {
				dir, err := s.Folder()
				if err == nil {
					err = errors.Join(os.MkdirAll(dir+"/a/b/c", 0o700), os.WriteFile(dir+"/a/b/f", nil, 0o400), s.Remove(dir))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
}
