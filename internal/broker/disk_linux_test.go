package broker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// mount mounts something on a new folder, or skips the test.
func mount(t *testing.T, source, kind string, flags uintptr, data string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	if err := unix.Mount(source, dir, kind, flags, data); err != nil {
		t.Skipf("no %s can be mounted here: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// mountImage mounts a new file system of so many bytes, or skips the test.
func mountImage(t *testing.T, kind string, size int64) string {
	t.Helper()
	dir, _ := mountImageOf(t, kind, size)
	return dir
}

// mountImageOf is mountImage that also tells where the image is.
func mountImageOf(t *testing.T, kind string, size int64) (dir, image string) {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		t.Skipf("there is no mkfs.%s here", kind)
	}
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	image = filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), mkfs, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return mountLoop(t, image, "loop"), image
}

// mountLoop mounts an image, or skips the test.
func mountLoop(t *testing.T, image, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", options, image, dir).CombinedOutput(); err != nil {
		t.Skipf("no loop device can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, "bullpen", "tmpfs", unix.MS_RDONLY, "")
	for _, d := range []string{dir, filepath.Join(dir, "store")} {
		if b, err := Open(t.Context(), Config{Dir: d}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount it for writing") {
			t.Errorf("Open() = %v, %v", b, err)
		}
	}
}

func TestNoRights(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		t.Skip("root has all rights")
	}
	if b, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "no right to write") {
		t.Errorf("Open() = %v, %v", b, err)
	}
}

func TestFileSystemsAsTheyAre(t *testing.T) {
	memory := mount(t, "bullpen", "tmpfs", 0, "size=64m")
	b := open(t, Config{Dir: memory})
	if !strings.Contains(b.Durability(), "none") || !strings.Contains(b.Fallback(), "tmpfs") {
		t.Errorf("tmpfs: %q, %q", b.Durability(), b.Fallback())
	}
	base := t.TempDir()
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	layered := mount(t, "overlay", "overlay", 0, "lowerdir="+base+"/lower,upperdir="+base+"/upper,workdir="+base+"/work")
	b = open(t, Config{Dir: layered})
	if !strings.Contains(b.Fallback(), "volume") {
		t.Errorf("overlay: %q, %q", b.Durability(), b.Fallback())
	}
	shut(t, b) // before it is unmounted
}

func TestSyncOfAFileSystemThatBecameReadOnly(t *testing.T) {
	dir := mount(t, "bullpen", "tmpfs", 0, "size=1m")
	fd, closeFD, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeFD() }()
	if err := syncfs(fd); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("it cannot be mounted anew: %v", err)
	}
	if err := unix.Syncfs(fd); err != nil {
		t.Logf("the kernel reports it by itself: %v", err)
	}
	if err := syncfs(fd); !errors.Is(err, syscall.EROFS) {
		t.Errorf("syncfs = %v, want EROFS", err)
	}
}

// fill stores jobs until the disk is full, and returns how many were confirmed
// and whether more were refused before.
func fill(t *testing.T, b *Broker, reserve int64) (confirmed int, refused bool) {
	t.Helper()
	js, hangUp := connect(t, b)
	defer hangUp()
	// A publish that the server cannot store is not answered at all.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends with fill
		select {
		case <-b.Failed():
			cancel()
		case <-ctx.Done():
		}
	}()
	for payload := make([]byte, 512<<10); confirmed < 500; confirmed++ {
		r := room{dir: b.c.Dir, reserve: reserve, space: spaceOf} // a new one asks the system each time
		refused = refused || errors.Is(r.ask(100), engine.ErrFull)
		_, err := js.Publish(ctx, "s."+number(confirmed), payload)
		if err == nil {
			err = confirm(b, engine.Entry{Kind: engine.Accepted, ID: number(confirmed)})
		}
		if err != nil {
			t.Logf("after %d jobs: %v; Err() = %v", confirmed, err, b.Err())
			return confirmed, refused
		}
	}
	t.Fatal("the disk does not get full")
	return 0, false
}

// TestFullDisk fills a small disk: jobs are refused while there is still room,
// and when there is none all that was confirmed is there after a new start.
func TestFullDisk(t *testing.T) {
	const reserve = 8 << 20
	dir := mountImage(t, "ext4", 64<<20)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, Config{Dir: dir, Reserve: reserve})
	if b.Fallback() != "" {
		t.Errorf("Fallback() = %q on ext4", b.Fallback())
	}
	confirmed, refused := fill(t, b, reserve)
	if !refused {
		t.Error("jobs were never refused")
	}
	<-b.Failed()
	if err := confirm(b, engine.Entry{}); !errors.Is(err, engine.ErrFailed) {
		t.Errorf("confirm says %v", err)
	}
	_ = b.Close(t.Context()) // it may say that there was no space
	if b, err := Open(t.Context(), Config{Dir: dir}); err == nil {
		shut(t, b)
	} else if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some") {
		t.Errorf("Open() on a full disk = %v", err)
	}
	// Someone frees some space.
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	b = open(t, Config{Dir: dir, Reserve: reserve})
	if err := b.Room(100); !errors.Is(err, engine.ErrFull) {
		t.Errorf("Room() = %v", err)
	}
	js, hangUp := connect(t, b)
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := int(s.CachedInfo().State.Msgs); n < confirmed {
		t.Errorf("%d messages are there, %d were confirmed", n, confirmed)
	}
	if ids, known := b.Unended(); known && len(ids) < confirmed {
		t.Errorf("%d jobs are counted, %d were confirmed", len(ids), confirmed)
	}
	hangUp()
	shut(t, b) // before it is unmounted
}
