package pebble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// TestBackupKilled kills a process again and again that makes one backup after the
// other: each folder that has its name is whole.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("BULLPEN_BACKUP_IN"); dir != "" {
		backUpForEver(t, dir)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, whole := t.TempDir(), 0
	rounds := 5
	if os.Getenv("BULLPEN_LONG") != "" {
		rounds = 100
	}
	for range rounds {
		cmd := exec.Command(program, "-test.run=^TestBackupKilled$")
		cmd.Env = append(os.Environ(), "BULLPEN_BACKUP_IN="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A line says that the first is made; how far the next ones get is left to chance.
		line := make([]byte, 6)
		if _, err := out.Read(line); err != nil || string(line) != "first\n" {
			t.Fatalf("%q, %v", line, err)
		}
		<-time.After(time.Duration(rand.IntN(int(20 * time.Millisecond))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		names, err := filepath.Glob(filepath.Join(dir, "backup-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, unfinished) {
				if s, damages := verified(t, name); len(damages) > 0 || s.Jobs == 0 {
					t.Errorf("%s: %+v, %v", name, s, damages)
				}
				whole++
			}
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if whole < rounds {
		t.Errorf("%d backups were made in %d rounds", whole, rounds)
	}
}

// backUpForEver makes backups until it is killed.
func backUpForEver(t *testing.T, dir string) {
	t.Helper()
	e, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	for i := 0; ; i++ {
		wait(t, e, engine.Put{Subject: fmt.Sprintf("job.mail.normal.%d-%d", os.Getpid(), i), Data: make([]byte, 10<<10)})
		if err := e.Backup(t.Context(), filepath.Join(dir, fmt.Sprintf("backup-%d-%d", os.Getpid(), i))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			fmt.Println("first")
		}
	}
}
