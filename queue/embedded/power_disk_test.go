//go:build linux

package embedded_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// disk is a file system in an image that lies on a file system which copies a file
// at one instant. What such a copy holds is what had reached the device; what sat
// in the page cache above it is dropped.
type disk struct {
	root  string // the mounted outer file system
	image string // of the inner one
	dir   string // the mounted inner one, or the copy of it
	kind  string // of the inner one
}

// mkfs has what the tools need to make a file system without a word.
var mkfs = map[string][]string{
	"ext4": {"-q", "-F"}, "xfs": {"-q", "-f", "-m", "reflink=1"}, "btrfs": {"-q", "-f"},
}

// newDisk makes a disk of one kind on an outer file system of another, or skips.
func newDisk(t *testing.T, outer, kind string) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	for _, tool := range []string{"mkfs." + outer, "mkfs." + kind, "mount", "cp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install xfsprogs, btrfs-progs and e2fsprogs", err)
		}
	}
	base := t.TempDir()
	d := &disk{root: filepath.Join(base, "outer"), dir: filepath.Join(base, "inner"), kind: kind}
	image := filepath.Join(base, "outer.img")
	sparse(t, image, 4<<30)
	command(t, "mkfs."+outer, append(slices.Clone(mkfs[outer]), image)...)
	if err := mount(t, image, d.root); err != nil {
		t.Skipf("no loop device: %v", err)
	}
	d.image = filepath.Join(d.root, "inner.img")
	sparse(t, d.image, 1<<30)
	command(t, "mkfs."+kind, append(slices.Clone(mkfs[kind]), d.image)...)
	if err := mount(t, d.image, d.dir); err != nil {
		t.Skipf("no second loop device: %v", err)
	}
	return d
}

func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	err := os.WriteFile(path, nil, 0o600)
	if err == nil {
		err = os.Truncate(path, size)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if err := try(name, args...); err != nil {
		t.Fatal(err)
	}
}

func try(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// mount mounts an image until the end of the test.
func mount(t *testing.T, image, at string) error {
	t.Helper()
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if err := try("mount", "-o", "loop", image, at); err != nil {
		return err
	}
	t.Cleanup(func() { unmount(t, at) })
	return nil
}

// unmount undoes mount. A file that was just closed may keep it for a moment.
func unmount(t *testing.T, at string) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); pause(20 * time.Millisecond) {
		if err = try("umount", at); err == nil || strings.Contains(err.Error(), "not mounted") {
			return
		}
	}
	t.Error(err)
}

// moment is when the power is cut.
type moment int

const (
	anyMoment moment = iota // a random one under load
	// tableBegun is right after a table was begun, and after the file system was made
	// to write down its names, but no bytes.
	tableBegun
)

// wreck is what a cut leaves.
type wreck struct {
	book   *book             // what was reported before the cut
	dir    string            // of the store in the copy
	before map[string]string // the files of the store at the cut: see messageFiles
	after  map[string]string // those in the copy, before anything opened it
	image  string            // another copy, which nothing has mounted; may be empty
}

// cut runs a node with c on d, copies the image at a moment under load, kills the
// node, and puts the copy in the place of the disk.
func (d *disk) cut(t *testing.T, c nodeConfig, when moment) *wreck {
	t.Helper()
	b := newBook()
	c.Dir = filepath.Join(d.dir, "store")
	n := startNode(t, c, b)
	n.ready(t, b)
	// The control shall not fail for folders that nobody has synced yet.
	command(t, "sync", "-f", d.dir)
	if when == tableBegun {
		wait := nextTable(t, c.Dir)
		n.loaded(t, b, 100)
		wait()
		// It shall not sync any more of what it has just written.
		if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		syncNames(t, d.dir)
	} else {
		n.loaded(t, b, 500+rand.IntN(rounds(2000, 20000)))
		pause(rand.N(50 * time.Millisecond))
	}
	w := &wreck{book: newBook(), dir: c.Dir, image: filepath.Join(d.root, "copy.img"), before: messageFiles(t, c.Dir)}
	w.book.confirmed, w.book.ended = b.copies()
	// Only now, after what the node has reported, the copy begins.
	command(t, "cp", "--reflink=always", d.image, w.image)
	n.kill()
	b.healthy(t)
	unmount(t, d.dir)
	command(t, "cp", "--reflink=always", "--remove-destination", w.image, d.image)
	command(t, "mount", "-o", "loop", d.image, d.dir)
	w.after = messageFiles(t, c.Dir)
	return w
}

// drop ends what cut has begun.
func (w *wreck) drop(t *testing.T) {
	t.Helper()
	for _, path := range []string{w.dir, w.image} {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
}

// syncNames makes a file system write down what files there are and how they are
// called: it syncs a file that has nothing to do with the store.
func syncNames(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "else"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// messageFiles gives the files in which a store has its messages, with their sizes and how much of
// that is zero.
func messageFiles(t *testing.T, store string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join(store, "data")
	for _, path := range found(t, filepath.Join(root, "*")) {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone meanwhile
		}
		zero := 0
		for page := range slices.Chunk(data, 4096) {
			if !slices.ContainsFunc(page, func(b byte) bool { return b != 0 }) {
				zero += len(page)
			}
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = fmt.Sprintf("%d bytes", len(data))
		if zero > 0 {
			out[name] += fmt.Sprintf(", %d of them zero", zero)
		}
	}
	return out
}

func found(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// tell says what is known of the jobs that are lost, and keeps the image when the
// test was started with -artifacts.
func (w *wreck) tell(t *testing.T, lost []string) {
	t.Helper()
	slices.Sort(lost) // by time: their ids begin with it
	var text strings.Builder
	for _, id := range lost {
		fmt.Fprintf(&text, "%s of queue %s, its outcome was reported: %t\n", id, w.book.confirmed[id], w.book.ended[id] != "")
	}
	text.WriteString("the files of the store when the power went, and in the copy:\n")
	both := maps.Clone(w.before)
	maps.Copy(both, w.after)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		fmt.Fprintf(&text, "%s: %s; %s\n", name, cmp.Or(w.before[name], "none"), cmp.Or(w.after[name], "none"))
	}
	t.Logf("lost:\n%s", &text)
	if w.image == "" {
		return
	}
	kept := filepath.Join(t.ArtifactDir(), "cut.img")
	if err := try("cp", "--sparse=always", w.image, kept); err != nil {
		t.Error(err)
	}
	t.Logf("what the cut left is in %s; it stays when the test is started with -artifacts", kept)
}

// nextTable watches for a table that is begun, and gives what waits for that.
func nextTable(t *testing.T, store string) (wait func()) {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := syscall.InotifyAddWatch(fd, filepath.Join(store, "data"), syscall.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	return func() {
		defer f.Close()
		if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 4096); ; {
			n, err := f.Read(b)
			if err != nil {
				t.Fatalf("no table was begun: %v", err)
			}
			if bytes.Contains(b[:n], []byte(".sst\x00")) {
				return
			}
		}
	}
}
