package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// journal collects log lines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// grouped is this system as if the folder of a test were on ext4.
func grouped() *system {
	s := thisSystem()
	s.kernel = func() (string, error) { return "6.1.0", nil }
	s.fileSystem = func(string) (fileSystem, error) { return fileSystem{name: "ext4", groups: true}, nil }
	if runtime.GOOS != "linux" {
		s.open = func(string) (int, func() error, error) { return 0, func() error { return nil }, nil }
		s.syncfs = func(int) error { return nil }
		s.holds = func(string, int, []byte) error { return nil }
	}
	// Tests may stand on any file system; those of the guard ask for the real one.
	s.inherits = func(string) error { return nil }
	s.guard = func(string, *slog.Logger, func(), func(error)) (func() error, error) {
		return func() error { return nil }, nil
	}
	return s
}

func open(t *testing.T, c Config) *Broker {
	t.Helper()
	b, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	return b
}

func shut(t *testing.T, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// connect returns a client with one stream "S" on the subjects "s.>".
func connect(t *testing.T, b *Broker) (jetstream.JetStream, func()) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(b.Server()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// confirm waits for a confirm.
func confirm(b *Broker, e engine.Entry) error {
	c := make(chan error, 1)
	b.Confirm(e, func(err error) { c <- err })
	return <-c
}

// number makes the n-th id of a test.
func number(n int) string {
	var i id
	i[0] = 1
	for k := range 8 {
		i[15-k] = byte(n >> (8 * k))
	}
	return i.String()
}

func TestStoredMessagesAreThereAgain(t *testing.T) {
	for _, mode := range []Sync{SyncAuto, SyncAlways} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "deep", "store")
			b := open(t, Config{Dir: dir, Sync: mode, instead: grouped()})
			js, hangUp := connect(t, b)
			for n := range 20 {
				if _, err := js.Publish(t.Context(), "s.x", []byte("hello")); err != nil {
					t.Fatal(err)
				}
				if err := confirm(b, engine.Entry{Kind: engine.Accepted, ID: number(n)}); err != nil {
					t.Fatal(err)
				}
			}
			stats := b.SyncStats()
			if stats.Confirms != 20 {
				t.Errorf("%d confirms, want 20", stats.Confirms)
			}
			if grouped := stats.Syncs > 0 && stats.P50 > 0 && stats.Max >= stats.P99; grouped != (mode == SyncAuto) {
				t.Errorf("SyncStats() = %+v with mode %d", stats, mode)
			}
			if b.Fallback() != "" || !strings.Contains(b.Durability(), "on the disk") || b.Err() != nil || b.Room(100) != nil {
				t.Errorf("Fallback() = %q, Durability() = %q, Err() = %v, Room() = %v", b.Fallback(), b.Durability(), b.Err(), b.Room(100))
			}
			hangUp()
			shut(t, b)
			if err := confirm(b, engine.Entry{}); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("a confirm after Close says %v", err)
			}

			b = open(t, Config{Dir: dir, Sync: mode, instead: grouped()})
			js, _ = connect(t, b)
			s, err := js.Stream(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			if n := s.CachedInfo().State.Msgs; n != 20 {
				t.Errorf("%d messages are there, want 20", n)
			}
			if ids, known := b.Unended(); len(ids) != 20 || !known || ids[7] != number(7) {
				t.Errorf("Unended() = %v, %v", ids, known)
			}
			if _, err := os.Stat(filepath.Join(b.c.Dir, probeDir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder of the self test: %v", err)
			}
		})
	}
}

func TestReadyFast(t *testing.T) {
	b := open(t, Config{Dir: t.TempDir()})
	shut(t, b)
	start := time.Now()
	b = open(t, Config{Dir: b.c.Dir})
	t.Logf("ready after %v; %s", time.Since(start), b.Durability())
	if at := b.server.Addr(); at != nil {
		t.Errorf("it listens on %v", at)
	}
	start = time.Now()
	shut(t, b)
	t.Logf("stopped after %v", time.Since(start))
}

func TestConfigFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{Sync: 7, Reserve: -1})
	if err == nil {
		t.Fatal("Open() = nil")
	}
	for _, want := range []string{"Dir is empty", "Sync is 7", "Reserve is -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	b := open(t, Config{Dir: dir})
	start := time.Now()
	_, err := Open(t.Context(), Config{Dir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("the second Open() = %v", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("refused after %v", took)
	}
	shut(t, b)
	open(t, Config{Dir: dir})
}

func TestFoldersThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(name, text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	foreign := t.TempDir()
	if err := os.Mkdir(filepath.Join(foreign, serverDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, want string }{
		{"a file", file, "is not a folder"},
		{"below a file", filepath.Join(file, "store"), "is not a folder"},
		{"newer", with(formatFile, "bullpen-store 2\n"), "newer version"},
		{"garbled", with(formatFile, "\x00\x00"), "does not say which layout"},
		{"another server's", foreign, "is no store of this program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := Open(t.Context(), Config{Dir: c.dir})
			if err == nil {
				shut(t, b)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestStartThatIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := Open(ctx, Config{Dir: dir, instead: grouped()})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Open() = %v, %v", b, err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		if b, err = Open(t.Context(), Config{Dir: dir}); err == nil {
			shut(t, b)
			return
		}
		if !errors.Is(err, ErrInUse) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestServerThatDoesNotStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shutAtOnce := open(t, Config{Dir: dir})
	shut(t, shutAtOnce)
	if err := os.RemoveAll(filepath.Join(dir, serverDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, serverDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "starting the server") {
		t.Errorf("Open() = %v, %v", b, err)
	}
}

func TestServerLogIsHandedOn(t *testing.T) {
	t.Parallel()
	var j journal
	b := open(t, Config{Dir: t.TempDir(), Logger: j.logger()})
	shut(t, b)
	if text := j.String(); !strings.Contains(text, "message of the server") || !strings.Contains(text, "Server is ready") {
		t.Errorf("the log is\n%s", text)
	}
}
