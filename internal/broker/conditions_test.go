package broker

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func TestKernelAtLeast(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"5.8.0": true, "5.8": true, "5.10-generic": true, "6.1.0-9-amd64": true, "6.0rc1": true, "10.0.1": true,
		"5.7.19": false, "4.19.0": false, "3.10.0-1160.el7": false, "": false, "6": false, "x.y": false, ".": false,
	} {
		if got := kernelAtLeast(release, 5, 8); got != want {
			t.Errorf("kernelAtLeast(%q, 5, 8) = %v", release, got)
		}
	}
}

func TestEachConditionHasItsOwnWords(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(s *system)
		want string
	}{
		{"kernel", func(s *system) { s.kernel = func() (string, error) { return "5.4.0-42", nil } }, "since 5.8 only"},
		{"other system", func(s *system) { s.kernel = func() (string, error) { return "", errNoSyncfs } }, "no syncfs"},
		{"network", func(s *system) {
			s.fileSystem = func(string) (fileSystem, error) { return fileSystem{name: "nfs", why: "it is far away"}, nil }
		}, "nfs: it is far away"},
		{"statfs", func(s *system) {
			s.fileSystem = func(string) (fileSystem, error) { return fileSystem{}, errors.New("statfs says no") }
		}, "statfs says no"},
		{"descriptor", func(s *system) {
			s.open = func(string) (int, func() error, error) { return -1, nil, errors.New("too many open files") }
		}, "too many open files"},
		{"syncfs", func(s *system) { s.syncfs = func(int) error { return errors.New("function not implemented") } }, "syncfs does not work"},
		{"attribute", func(s *system) {
			s.inherits = func(string) error { return errors.New("chattr says no") }
		}, "chattr says no"},
		{"guard", func(s *system) {
			s.guard = func(string, *slog.Logger, func(), func(error)) (func() error, error) {
				return nil, errors.New("too many watches")
			}
		}, "too many watches"},
		{"self test", func(s *system) { s.holds = func(string, int, []byte) error { return errNotHeld } }, "in none of the server's files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sys := grouped()
			c.make(sys)
			var j journal
			b := open(t, Config{Dir: t.TempDir(), Logger: j.logger(), instead: sys})
			if !strings.Contains(b.Fallback(), c.want) || !strings.Contains(b.Durability(), "syncs each one") {
				t.Errorf("Fallback() = %q, Durability() = %q", b.Fallback(), b.Durability())
			}
			if text := j.String(); !strings.Contains(text, "safe and slow") || !strings.Contains(text, "level=WARN") {
				t.Errorf("the log is\n%s", text)
			}
			js, _ := connect(t, b)
			if _, err := js.Publish(t.Context(), "s.x", nil); err != nil {
				t.Error(err)
			}
			if err := confirm(b, engine.Entry{Kind: engine.Accepted, ID: number(1)}); err != nil || b.SyncStats().Syncs != 0 {
				t.Errorf("confirm says %v, %+v", err, b.SyncStats())
			}
			if _, err := os.Stat(filepath.Join(b.c.Dir, probeDir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder of the self test: %v", err)
			}
		})
	}
}

func TestMemoryIsSaidAloud(t *testing.T) {
	sys := grouped()
	sys.fileSystem = func(string) (fileSystem, error) {
		return fileSystem{name: "tmpfs", volatile: true, why: "it is memory"}, nil
	}
	var j journal
	b := open(t, Config{Dir: t.TempDir(), Logger: j.logger(), instead: sys})
	if !strings.HasPrefix(b.Durability(), "none") || !strings.Contains(b.Fallback(), "memory") || !strings.Contains(j.String(), "nothing in this folder survives") {
		t.Errorf("Durability() = %q, Fallback() = %q", b.Durability(), b.Fallback())
	}
}

func TestProbeLooksIntoTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := filesHold(dir, 0, []byte("x")); !errors.Is(err, errNotHeld) {
		t.Errorf("an empty folder: %v", err)
	}
	msgs := filepath.Join(dir, "$G", "streams", probeStream, "msgs")
	if err := os.MkdirAll(msgs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(msgs, "1.blk"), []byte("abc needle def"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := filesHold(dir, 0, []byte("thread")); !errors.Is(err, errNotHeld) {
		t.Errorf("other bytes: %v", err)
	}
	if err := filesHold(dir, -1, []byte("needle")); err == nil || !strings.Contains(err.Error(), "another file system") {
		t.Errorf("another file system: %v", err)
	}
}

// TestFlippedBit shows what the ledger is for: the server drops messages without
// a word, and the ids of these are known all the same.
func TestFlippedBit(t *testing.T) {
	b := open(t, Config{Dir: t.TempDir(), instead: grouped()})
	js, _ := connect(t, b)
	const jobs = 100
	for n := range jobs {
		if _, err := js.Publish(t.Context(), "s."+number(n), []byte("payload of the job "+number(n))); err != nil {
			t.Fatal(err)
		}
		if err := confirm(b, engine.Entry{Kind: engine.Accepted, ID: number(n)}); err != nil {
			t.Fatal(err)
		}
	}
	for wrote := int64(0); wrote < jobs*recordSize; { // until the count is written
		<-time.After(time.Millisecond)
		wrote = 0
		files, _, err := ledgerFiles(filepath.Join(b.c.Dir, ledgerDir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			wrote += f.size
		}
	}
	copied := t.TempDir() // as a crash would leave it
	if err := os.CopyFS(copied, os.DirFS(b.c.Dir)); err != nil {
		t.Fatal(err)
	}
	blocks, err := filepath.Glob(filepath.Join(copied, serverDir, "*", "streams", "S", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	data, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(blocks[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	b = open(t, Config{Dir: copied, instead: grouped()})
	js, _ = connect(t, b)
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n >= jobs {
		t.Fatalf("%d messages after a flipped bit: the test shows nothing", n)
	}
	if ids, known := b.Unended(); len(ids) != jobs || !known {
		t.Errorf("%d ids, %v", len(ids), known)
	}
	t.Logf("%d of %d messages are left; the server says %q", s.CachedInfo().State.Msgs, jobs, b.Damage())
}
