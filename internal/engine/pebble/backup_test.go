package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// restored restores a backup to a new folder and opens it.
func restored(t *testing.T, backup string) (*Engine, Summary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	s, err := Restore(t.Context(), Config{Dir: backup}, dir, func(d Damage) { t.Error(d) })
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

// everything gives what stands on all subjects.
func everything(t *testing.T, e engine.Engine) book {
	t.Helper()
	all := book{}
	for _, s := range engine.Streams() {
		if _, err := e.Walk(t.Context(), s, engine.Walk{}, func(m engine.Message) bool { all[m.Subject] = string(m.Data); return true }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Backups are made while several put, take and remove: each can be verified and
// restored, has all that was confirmed before it began and was not changed since, and
// is worked off. Large jobs make logs end and begin anew meanwhile.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	stop := make(chan struct{})
	var work sync.WaitGroup
	defer work.Wait()
	defer close(stop)
	l := &model{sure: book{}, maybe: map[string]map[string]bool{}, chance: rand.New(rand.NewPCG(1, rand.Uint64()))}
	for i := range 4 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), rand.Uint64()))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				l.step(e, r)
				done := make(chan struct{})
				e.Put(engine.Put{Subject: fmt.Sprintf("job.large.normal.%d-%d", i, n), Data: make([]byte, 100<<10)}, func(uint64, error) { close(done) })
				<-done
			}
		})
	}
	backups := 2
	if os.Getenv("BULLPEN_LONG") != "" {
		backups = 100
	}
	for i := range backups {
		l.mu.Lock()
		before := maps.Clone(l.sure)
		l.mu.Unlock()
		dir := filepath.Join(t.TempDir(), fmt.Sprint("backup-", i))
		if err := e.Backup(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		copied, s := restored(t, dir)
		found := everything(t, copied)
		if total := s.Jobs + s.Outcomes + s.Dead + s.State; int(total) != len(found) {
			t.Errorf("Restore says that there are %d messages, and there are %d", total, len(found))
		}
		for subject, data := range before {
			// Others may have changed what is replaced or removed while it was made.
			if (strings.HasPrefix(subject, "job.") || strings.HasPrefix(subject, "out.")) && found[subject] != data {
				t.Errorf("backup %d: %s holds %q, want %q", i, subject, found[subject], data)
			}
		}
		workOff(t, copied)
		if err := copied.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// workOff takes some jobs and ends them.
func workOff(t *testing.T, e *Engine) {
	t.Helper()
	c := engine.Consumer{Queue: "mail", Priority: "normal"}
	d, err := e.Depth(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range takeSome(t, e, c, d.Waiting) {
		d.Ack()
	}
	wait(t, e, engine.Put{Stream: engine.State, Subject: "set.name.last"})
	if d, err := e.Depth(t.Context(), c); err != nil || d.Waiting+d.Taken > 0 {
		t.Errorf("Depth = %+v, %v, want none left", d, err)
	}
}

// A job that somebody has at the time of the backup runs again, and it is known that
// it may have begun.
func TestBackupOfTaken(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	c := engine.Consumer{Queue: "mail", Priority: "normal"}
	for i := range 2 {
		wait(t, e, engine.Put{Subject: engine.JobSubject(c, fmt.Sprint("job-", i))})
	}
	takeSome(t, e, c, 1)[0].Begin()
	dir := filepath.Join(t.TempDir(), "backup")
	if err := e.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	after, s := restored(t, dir)
	defer after.Close(context.Background())
	if s.Jobs != 2 || s.Taken != 1 || !s.Closed {
		t.Errorf("Restore = %+v, want 2 jobs of which 1 is taken", s)
	}
	for i, d := range takeSome(t, after, c, 2) {
		if d.Orphan != (i == 0) || d.Again != (i == 0) {
			t.Errorf("%s: Orphan %v, Again %v", d.Subject, d.Orphan, d.Again)
		}
	}
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	store, other := filepath.Join(t.TempDir(), "store"), t.TempDir()
	e, err := Open(t.Context(), Config{Dir: store})
	if err != nil {
		t.Fatal(err)
	}
	half, file := filepath.Join(other, "half"), filepath.Join(other, "file")
	if err := errors.Join(os.Mkdir(half+unfinished, 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		other: "exists already", half: "remove it", filepath.Join(store, "data", "x"): "in the folder of the store", store: "in the folder of the store",
		filepath.Join(file, "x"): "not a folder",
	} {
		if err := e.Backup(t.Context(), dir); !errors.Is(err, engine.ErrBackup) || !strings.Contains(err.Error(), want) {
			t.Errorf("Backup to %s = %v, want ErrBackup and %q", dir, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := filepath.Join(other, "canceled")
	if err := e.Backup(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup = %v, want the end of its context", err)
	}
	wait(t, e, engine.Put{Stream: engine.State, Subject: "set.all.well"})
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.Backup(t.Context(), dir); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Backup = %v, want ErrClosed", err)
	}
	if _, err := Restore(t.Context(), Config{Dir: store}, other, func(Damage) {}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("Restore = %v", err)
	}
	if err := os.WriteFile(filepath.Join(store, sealFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Restore(t.Context(), Config{Dir: store}, dir, func(Damage) {}); !errors.Is(err, ErrDamaged) || s.Damages != 1 {
		t.Errorf("Restore = %+v, %v, want ErrDamaged", s, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is there", dir)
	}
}

// failingFS fails all that is written below a folder after some of it.
type failingFS struct {
	vfs.FS

	below string
	mu    sync.Mutex
	left  int // guarded by mu
}

var errFailing = errors.New("no space left here")

func (f *failingFS) fails(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !strings.HasPrefix(name, f.below) {
		return nil
	}
	if f.left--; f.left < 0 {
		return errFailing
	}
	return nil
}

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.fails(name); err != nil {
		return nil, err
	}
	return f.FS.Create(name, c)
}

func (f *failingFS) Link(from, to string) error {
	if err := f.fails(to); err != nil {
		return err
	}
	return f.FS.Link(from, to)
}

func (f *failingFS) Rename(from, to string) error {
	if err := f.fails(to); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

// A backup that fails anywhere leaves nothing behind, and the store goes on.
func TestBackupFails(t *testing.T) {
	t.Parallel()
	f := &failingFS{FS: vfs.NewMem(), below: "backup"}
	e, err := Open(t.Context(), Config{Dir: "store", FS: f})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	for n := 0; ; n++ {
		wait(t, e, engine.Put{Subject: fmt.Sprintf("job.mail.normal.%03d", n)})
		f.mu.Lock()
		f.left = n
		f.mu.Unlock()
		err := e.Backup(t.Context(), "backup")
		if err == nil {
			if n < 5 {
				t.Errorf("a backup was made with %d writes", n)
			}
			break
		}
		if !errors.Is(err, engine.ErrBackup) || !errors.Is(err, errFailing) {
			t.Errorf("Backup = %v, want ErrBackup and its cause", err)
		}
		for _, name := range []string{"backup", "backup" + unfinished} {
			if _, err := f.Stat(name); err == nil {
				t.Errorf("after %d writes %s is there", n, name)
			}
		}
	}
	if err := e.Err(); err != nil {
		t.Error(err)
	}
	if s, err := Verify(t.Context(), Config{Dir: "backup", FS: f}, func(d Damage) { t.Error(d) }); err != nil || s.Jobs < 5 {
		t.Errorf("Verify = %+v, %v", s, err)
	}
}

// A log that has taken over the file of another is copied up to its own end.
func TestBackupOfReusedLogs(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Dir: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	longer := false
	for i := 0; i < 1000 && !longer; i++ {
		wait(t, e, engine.Put{Subject: fmt.Sprintf("job.large.normal.%d", i), Data: make([]byte, 300<<10)})
		e.aside.mu.Lock()
		logs := maps.Clone(e.aside.logs)
		e.aside.mu.Unlock()
		for name, log := range logs {
			log.mu.Lock()
			length := log.note.length
			log.mu.Unlock()
			info, err := e.folder.fs.Stat(name)
			if err != nil || info.Size() <= length {
				continue // it is gone, or has a file of its own
			}
			file, err := aside{haltFS{e.folder.fs, e, &e.files}, &e.aside}.Open(name)
			if err != nil {
				continue
			}
			text, err := io.ReadAll(file)
			if err := errors.Join(err, file.Close()); err != nil {
				t.Error(err)
			}
			if now, err := e.folder.fs.Stat(name); err == nil && int64(len(text)) >= now.Size() {
				t.Errorf("%d bytes of a file of %d are copied, of which the log has %d", len(text), now.Size(), length)
			}
			longer = true
		}
	}
	if !longer {
		t.Error("no log has taken over a file")
	}
}
