package broker

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// cutPower copies the image that is mounted at dir as a loss of power would leave
// it, mounts the copy, and returns where. Before, it makes the file system write
// down its names by syncing a file that has nothing to do with the store.
func cutPower(t *testing.T, kind, dir, image string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "else"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", image, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	options := "loop"
	if kind == "xfs" {
		options += ",nouuid"
	}
	return mountLoop(t, copied, options)
}

// A block of messages that were confirmed long ago is rewritten without those that
// are gone. When the power goes right then, the others are there.
func TestReplacedBlockSurvivesALossOfPower(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			if lost := replaceAndCut(t, kind, thisSystem()); lost > 0 {
				t.Errorf("%d messages are lost that were confirmed before the block was replaced", lost)
			}
		})
	}
}

// The control: without the guard xfs has to lose them, or the test above says
// nothing. ext4 begins to write them when it renames, and mostly ends in time.
func TestReplacedBlockWithoutAGuard(t *testing.T) {
	for range 5 { // the server may just have synced by itself, as it does every few seconds
		if lost := replaceAndCut(t, "xfs", grouped()); lost > 0 {
			t.Logf("%d confirmed messages are lost without the guard", lost)
			return
		}
	}
	t.Error("nothing is lost: this way of cutting the power tests nothing")
}

// messages of 16 KiB are more than a block of 8 MiB holds.
const messages = 700

func publishMany(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for n := range messages {
		if _, err := js.Publish(t.Context(), "s."+number(n), make([]byte, 16<<10)); err != nil {
			t.Fatal(err)
		}
	}
}

// replaceAndCut has a block replaced, cuts the power, and counts the messages that
// were confirmed and are lost.
func replaceAndCut(t *testing.T, kind string, sys *system) (lost int) {
	t.Helper()
	const gone = 350 // a block is replaced when half of it is gone
	dir, image := mountImageOf(t, kind, 320<<20)
	b := open(t, Config{Dir: filepath.Join(dir, "store"), instead: sys})
	if b.Fallback() != "" {
		t.Fatal(b.Fallback())
	}
	js, hangUp := connect(t, b)
	publishMany(t, js)
	if err := confirm(b, engine.Entry{}); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "store", serverDir, "$G", "streams", "S", "msgs", "1.blk")
	before := inode(t, block)
	for n := range gone {
		if err := s.DeleteMsg(t.Context(), uint64(n+2)); err != nil { // the first stays, so that the block has a hole
			t.Fatal(err)
		}
	}
	if inode(t, block) == before {
		t.Fatal("the server has not replaced the block: this tests nothing")
	}
	copied := cutPower(t, kind, dir, image)
	hangUp()
	shut(t, b)

	b = open(t, Config{Dir: filepath.Join(copied, "store"), instead: sys})
	js, hangUp = connect(t, b)
	if s, err = js.Stream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	// Those that were deleted may be back, for nobody has waited for their end.
	for n := range messages {
		if _, err := s.GetMsg(t.Context(), uint64(n+1)); err != nil && (n == 0 || n > gone) {
			lost++
		}
	}
	hangUp()
	shut(t, b) // before it is unmounted
	return lost
}

// The server itself moves a job whose time has come, and removes the block in which
// it waited, for that was the last message there. When the power goes soon after,
// the job is in its new place: it is synced as soon as the block is gone.
func TestMovedMessageSurvivesALossOfPower(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, image := mountImageOf(t, kind, 320<<20)
			b := open(t, Config{Dir: filepath.Join(dir, "store")})
			js, hangUp := connect(t, b)
			c := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowMsgSchedules: true}
			s, err := js.UpdateStream(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			publishAt(t, js, time.Now().Add(4*time.Second))
			publishMany(t, js)
			block := filepath.Join(dir, "store", serverDir, "$G", "streams", "S", "msgs", "1.blk")
			for n := range messages - 100 {
				if err := s.DeleteMsg(t.Context(), uint64(n+2)); err != nil {
					t.Fatal(err)
				}
			}
			if err := confirm(b, engine.Entry{}); err != nil {
				t.Fatal(err)
			}
			before := int64(0)
			waits(t, "its block is gone, and what was written is synced", func() bool {
				syncs := b.SyncStats().Syncs
				if _, err := os.Stat(block); !errors.Is(err, os.ErrNotExist) {
					before = syncs
				}
				return syncs > before
			})
			copied := cutPower(t, kind, dir, image)
			hangUp()
			shut(t, b)

			b = open(t, Config{Dir: filepath.Join(copied, "store")})
			nc, err := nats.Connect("", nats.InProcessServer(b.Server()))
			if err != nil {
				t.Fatal(err)
			}
			if js, err = jetstream.New(nc); err == nil {
				s, err = js.Stream(t.Context(), "S")
			}
			if err != nil {
				t.Fatal(err)
			}
			_, there := s.GetLastMsgForSubject(t.Context(), "s.later")
			if _, err := s.GetLastMsgForSubject(t.Context(), "s.now"); err != nil && there != nil {
				t.Errorf("the message that was confirmed to come later is nowhere: %v, %v", err, there)
			}
			nc.Close()
			shut(t, b) // before it is unmounted
		})
	}
}

// publishAt publishes a message to s.later that the server moves to s.now.
func publishAt(t *testing.T, js jetstream.JetStream, at time.Time) {
	t.Helper()
	m := nats.NewMsg("s.later")
	m.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set("Nats-Schedule-Target", "s.now")
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func waits(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("this does not happen: %s", what)
		}
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Ino
}

// guarded is a folder that is guarded, with what its guard says.
func guarded(t *testing.T, dir string) (closeGuard func() error, fault func() error, said *journal) {
	t.Helper()
	if err := inherits(filepath.Join(t.TempDir(), "try")); err != nil {
		t.Skipf("the folder for temporary files is on a file system on which nothing is guarded: %v", err)
	}
	f, said := newFailure(), &journal{}
	closeGuard, err := openGuard(dir, slog.New(slog.NewTextHandler(said, nil)), func() {}, func(err error) { _ = f.set(err) })
	if err != nil {
		t.Fatal(err)
	}
	return closeGuard, f.get, said
}

// becomes waits until a file has the attribute S or not.
func becomes(t *testing.T, path string, want bool) {
	t.Helper()
	waits(t, path+" gets or loses its attribute", func() bool {
		on, err := hasFlag(path)
		return err == nil && on == want
	})
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, "$G", "streams", "S", name) }
	write(t, in("msgs/1.blk")) // of an older version of this program
	write(t, in("obs/C/o.dat"))
	closeGuard, fault, _ := guarded(t, dir)

	write(t, in("msgs/1.new")) // what is made from now on
	write(t, in("msgs/2.blk"))
	write(t, in("obs/D/o.dat"))
	write(t, filepath.Join(dir, "$G", "streams", "T", "msgs", "1.blk"))
	for _, path := range []string{in("msgs"), in("msgs/1.new"), filepath.Join(dir, "$G", "streams", "T", "msgs")} {
		if on, err := hasFlag(path); err != nil || !on {
			t.Errorf("%s is not guarded: %v", path, err)
		}
	}
	for _, path := range []string{in("msgs/1.blk"), in("msgs/2.blk"), filepath.Join(dir, "$G", "streams", "T", "msgs", "1.blk"), in("obs"), in("obs/D"), in("obs/D/o.dat")} {
		becomes(t, path, false)
	}
	// A purge puts another folder in the place of the one with the messages.
	write(t, in("__new_msgs__/3.blk"))
	if err := errors.Join(os.Rename(in("msgs"), in("__msgs__")), os.Rename(in("__new_msgs__"), in("msgs")), os.RemoveAll(in("__msgs__"))); err != nil {
		t.Fatal(err)
	}
	write(t, in("msgs/4.blk"))
	write(t, in("msgs/4.new"))
	becomes(t, in("msgs/3.blk"), false)
	becomes(t, in("msgs/4.blk"), false)
	becomes(t, in("msgs/4.new"), true)
	if err := errors.Join(closeGuard(), fault()); err != nil {
		t.Error(err)
	}
	write(t, in("msgs/5.blk")) // safe without a guard, and slow
	if on, err := hasFlag(in("msgs/5.blk")); err != nil || !on {
		t.Errorf("a new file has the attribute: %t, %v", on, err)
	}
}

// More has happened than the kernel keeps: the guard looks for itself.
func TestGuardAfterAnOverflow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "1.blk"))
	g := &guard{root: dir, folders: map[int32]string{}, log: slog.New(slog.DiscardHandler), moved: func() {}, fail: func(err error) { t.Error(err) }}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	g.watch = os.NewFile(uintptr(fd), "inotify")
	defer g.watch.Close()
	if err := setFlag(filepath.Join(dir, "1.blk"), true); err != nil {
		t.Skipf("there is no attribute S here: %v", err)
	}
	g.see(event{watch: -1, mask: unix.IN_Q_OVERFLOW})
	becomes(t, filepath.Join(dir, "1.blk"), false)
	becomes(t, dir, true)
	if len(g.folders) != 1 {
		t.Errorf("%d folders are watched", len(g.folders))
	}
}

// What cannot be guarded is a failure, what is only slow is said.
func TestGuardThatFails(t *testing.T) {
	dir := mount(t, "bullpen", "proc", 0, "") // has neither the attribute nor new files
	if err := inherits(filepath.Join(dir, "try")); err == nil {
		t.Error("inherits() = nil on a file system without files of its own")
	}
	var faults []error
	g := &guard{root: dir, folders: map[int32]string{1: dir}, log: slog.New(slog.DiscardHandler), moved: func() {}, fail: func(err error) { faults = append(faults, err) }}
	g.see(event{watch: 1, mask: unix.IN_CREATE | unix.IN_ISDIR, name: "sys"})
	if len(faults) != 1 || !errors.Is(faults[0], errOpen) {
		t.Errorf("a folder without the attribute: %v", faults)
	}
	g.see(event{watch: 1, mask: unix.IN_CREATE | unix.IN_ISDIR, name: "gone again"})
	g.see(event{watch: 2, mask: unix.IN_CREATE | unix.IN_ISDIR, name: "sys"}) // of nobody
	g.see(event{watch: 1, mask: unix.IN_IGNORED})
	if len(faults) != 1 || len(g.folders) != 0 {
		t.Errorf("faults %v, folders %v", faults, g.folders)
	}
}

func TestInherits(t *testing.T) {
	for kind, want := range map[string]bool{"ext4": true, "xfs": true, "btrfs": false} {
		t.Run(kind, func(t *testing.T) {
			dir, _ := mountImageOf(t, kind, 320<<20)
			try := filepath.Join(dir, "try")
			if err := inherits(try); (err == nil) != want {
				t.Errorf("inherits() = %v", err)
			}
			if _, err := os.Stat(try); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder is there: %v", err)
			}
			b := open(t, Config{Dir: filepath.Join(dir, "store")})
			if (b.Fallback() == "") != want || !want && !strings.Contains(b.Fallback(), "chattr +S") {
				t.Errorf("Fallback() = %q", b.Fallback())
			}
			shut(t, b) // before it is unmounted
		})
	}
}

func FuzzEventsIn(f *testing.F) {
	one := []byte{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, '1', '.', 'b', 'l', 'k', 0, 0, 0}
	f.Add(one)
	f.Add(slices.Concat(one, one[:20]))
	f.Fuzz(func(t *testing.T, b []byte) {
		size := 0
		for e := range eventsIn(b) {
			size += unix.SizeofInotifyEvent + len(e.name)
		}
		if size > len(b) {
			t.Errorf("%d bytes of events in %d", size, len(b))
		}
	})
}
