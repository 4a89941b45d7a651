package pebble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// failingVariable names the environment variable that makes this test binary run on
// a disk that fails: which operations, after how many, and the folder.
const failingVariable = "BULLPEN_FAILING_DISK"

// failing are the operations that fail.
var failing = map[string]func(errorfs.Op) bool{
	"log written":      func(o errorfs.Op) bool { return o.Kind == errorfs.OpFileWrite && strings.HasSuffix(o.Path, ".log") },
	"log synced":       func(o errorfs.Op) bool { return isSync(o.Kind) && strings.HasSuffix(o.Path, ".log") },
	"log begun":        func(o errorfs.Op) bool { return isNew(o.Kind) && strings.HasSuffix(o.Path, ".log") },
	"table written":    func(o errorfs.Op) bool { return o.Kind == errorfs.OpFileWrite && strings.HasSuffix(o.Path, ".sst") },
	"table synced":     func(o errorfs.Op) bool { return isSync(o.Kind) && strings.HasSuffix(o.Path, ".sst") },
	"table begun":      func(o errorfs.Op) bool { return isNew(o.Kind) && strings.HasSuffix(o.Path, ".sst") },
	"manifest written": func(o errorfs.Op) bool { return o.Kind == errorfs.OpFileWrite && strings.Contains(o.Path, "MANIFEST") },
	"manifest synced":  func(o errorfs.Op) bool { return isSync(o.Kind) && strings.Contains(o.Path, "MANIFEST") },
	"hands written": func(o errorfs.Op) bool {
		return o.Kind == errorfs.OpFileWriteAt && strings.HasSuffix(o.Path, handoutsFile)
	},
	"hands synced":     func(o errorfs.Op) bool { return isSync(o.Kind) && strings.HasSuffix(o.Path, handoutsFile) },
	"anything written": func(o errorfs.Op) bool { return o.Kind.ReadOrWrite() == errorfs.OpIsWrite },
}

func isSync(k errorfs.OpKind) bool {
	return k == errorfs.OpFileSync || k == errorfs.OpFileSyncData || k == errorfs.OpFileSyncTo
}

func isNew(k errorfs.OpKind) bool {
	return k == errorfs.OpCreate || k == errorfs.OpReuseForWrite
}

// A disk that fails from some write on: each put is stored or refused, the engine says
// that it has failed and why, it closes, and what it confirmed is there when the store
// is opened by another process, on a sound disk.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	after := []int{0, 1, 7}
	if testing.Short() {
		after = after[1:2]
	}
	for name := range failing {
		for _, n := range after {
			t.Run(fmt.Sprint(name, " after ", n), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOnFailingDisk$")
				child.Env = append(os.Environ(), fmt.Sprintf("%s=%s/%d/%s", failingVariable, name, n, dir))
				out, err := child.Output()
				if err != nil {
					t.Fatalf("the process on the failing disk: %v\n%s", err, out)
				}
				checkSurvivors(t, dir, string(out))
			})
		}
	}
}

// checkSurvivors opens what a process has left that has printed what was confirmed.
func checkSurvivors(t *testing.T, dir, confirmed string) {
	t.Helper()
	e, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatalf("the store does not open on a sound disk: %v", err)
	}
	defer e.Close(context.Background())
	ended := false
	for line := range strings.Lines(confirmed) {
		what, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "stored":
			if m, err := e.Get(t.Context(), engine.Jobs, subject); err != nil || len(m.Data) != 40_000 {
				t.Errorf("Get %s = %d bytes, %v, and it was confirmed", subject, len(m.Data), err)
			}
		case "end":
			ended = true
		default:
			t.Error(strings.TrimSpace(line))
		}
	}
	if !ended {
		t.Errorf("the process has not come to its end:\n%s", confirmed)
	}
}

// TestOnFailingDisk is run by TestFailingDisk in a process of its own: what Pebble had
// under way stays so until the process ends.
func TestOnFailingDisk(t *testing.T) {
	setting := os.Getenv(failingVariable)
	if setting == "" {
		return // this is not the process on the failing disk
	}
	fields := strings.SplitN(setting, "/", 3)
	sound, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	var done atomic.Int64
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(o errorfs.Op) error {
		if broken.Load() && failing[fields[0]](o) && done.Add(1) > sound {
			return syscall.ENOSPC
		}
		return nil
	}))
	e, err := store{fs: fs, dir: "/" + fields[2]}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	taker, err := e.Take(engine.Consumer{Queue: "mail", Priority: "normal"}, func(engine.Delivery) {}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	taker.Request(1000, true)
	broken.Store(true)
	putUntilFailed(t, e)
	closing, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := e.Close(closing); err != nil && !errors.Is(err, syscall.ENOSPC) {
		fmt.Println("Close =", err)
	}
	fmt.Println("end")
	os.Exit(0)
}

// putUntilFailed puts jobs until the engine says that it has failed, and tells the
// subjects of those that were confirmed.
func putUntilFailed(t *testing.T, e engine.Engine) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for n, failed := 0, false; !failed; n++ {
		subject := fmt.Sprintf("job.mail.normal.%05d", n)
		answer := make(chan error, 1)
		e.Put(engine.Put{Subject: subject, Data: make([]byte, 40_000), Durable: true, New: true}, func(_ uint64, err error) { answer <- err })
		select {
		case err := <-answer:
			if failed = err != nil; !failed {
				fmt.Println("stored", subject)
			} else if !errors.Is(err, engine.ErrFailed) {
				fmt.Println("Put =", err, "want it stored, or ErrFailed")
			}
		case <-deadline.C:
			fmt.Println("the disk fails, and the engine does not say so, or does not answer")
			return
		}
	}
	select {
	case <-e.Failed():
	default:
		fmt.Println("Failed is not closed")
	}
	if err := e.Err(); !errors.Is(err, engine.ErrFailed) || !strings.Contains(err.Error(), "no space left") {
		fmt.Println("Err =", err, "want ErrFailed and the cause")
	}
	if _, err := e.Get(t.Context(), engine.Jobs, "job.mail.normal.00000"); !errors.Is(err, engine.ErrFailed) {
		fmt.Println("Get =", err, "want ErrFailed")
	}
}

// A disk that is nearly full takes no more jobs, and all else.
func TestNearlyFullDisk(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100 << 20, TotalBytes: 100 << 30})
	e, err := store{fs: mem, dir: "store"}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	put := func(p engine.Put) error { return e.(*Engine).wait(p) }
	if err := put(engine.Put{Subject: "job.mail.normal.a"}); !errors.Is(err, engine.ErrFull) || !strings.Contains(err.Error(), "104857600 bytes free") {
		t.Errorf("Put of a job = %v, want ErrFull and how much is free", err)
	}
	if err := put(engine.Put{Stream: engine.Outcomes, Subject: "out.a", Durable: true}); err != nil {
		t.Errorf("Put of an outcome = %v", err)
	}
	small, err := Open(t.Context(), Config{Dir: "small", FS: mem, Reserve: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close(context.Background())
	if err := small.wait(engine.Put{Subject: "job.mail.normal.a"}); err != nil {
		t.Errorf("Put of a job with a small reserve = %v", err)
	}
}

// A read that fails while a batch is made lets nothing of the batch be written.
func TestFailingRead(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	first, err := Open(t.Context(), Config{Dir: "store", FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	state := func(i int) engine.Put {
		return engine.Put{Stream: engine.State, Subject: fmt.Sprintf("set.name.%04d", i), Data: fmt.Append(nil, i)}
	}
	const n = 3000 // so that what is put stands in a block that nobody has read
	for i := range n {
		if err := first.wait(state(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(o errorfs.Op) error {
		if broken.Load() && o.Kind == errorfs.OpFileReadAt && strings.HasSuffix(o.Path, ".sst") {
			return syscall.EIO
		}
		return nil
	}))
	e, err := Open(t.Context(), Config{Dir: "store", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !e.db.Metrics().Table.InitialStatsCollectionComplete; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the store still reads by itself")
		}
	}
	broken.Store(true)
	p := state(n / 2)
	p.Data = []byte("another")
	if err := e.wait(p); !errors.Is(err, engine.ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Put = %v, want ErrFailed and the cause", err)
	}
	broken.Store(false)
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	after, err := Open(t.Context(), Config{Dir: "store", FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close(context.Background())
	for i := range n {
		want := state(i)
		if m, err := after.Get(t.Context(), engine.State, want.Subject); err != nil || string(m.Data) != string(want.Data) {
			t.Errorf("Get %s = %q, %v, want %q", want.Subject, m.Data, err, want.Data)
		}
	}
}

// A time beyond what is stored of one is not past.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Dir: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if err := e.wait(engine.Put{Subject: "job.mail.normal.a", At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	if err := e.wait(engine.Put{Stream: engine.State, Subject: "set.name.a", TTL: 1<<63 - 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.wait(engine.Put{Subject: "job.mail.normal.b", At: time.Now().Add(20 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	takeSome(t, e, engine.Consumer{Queue: "mail", Priority: "normal"}, 1) // so the clock has looked at all
	m, err := e.Get(t.Context(), engine.Jobs, "at.a")
	if err != nil || m.At.Year() < 2262 {
		t.Errorf("Get = %v at %v, want it to wait", err, m.At)
	}
	if _, err := e.Get(t.Context(), engine.State, "set.name.a"); err != nil {
		t.Errorf("Get of what goes in 292 years = %v", err)
	}
}
