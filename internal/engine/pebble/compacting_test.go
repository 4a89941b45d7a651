package pebble

import (
	"context"
	"errors"
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

// damagedVariable names the environment variable that makes this test binary compact
// the damaged store in a folder.
const damagedVariable = "BULLPEN_DAMAGED_STORE"

// Damage that a compaction meets ends the engine and not the program, in whose
// goroutines Pebble panics then.
func TestDamageMetByACompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fillTable(t, dir)
	damageLargestTable(t, dir)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCompactDamaged$")
	child.Env = append(os.Environ(), damagedVariable+"="+dir)
	if out, err := child.CombinedOutput(); err != nil || string(out) != "ended\n" {
		t.Errorf("the process that compacts it: %v\n%s", err, out)
	}
}

// fillTable makes a store of one large table with jobs, and a log by which they are
// removed, as a process leaves it that is killed.
func fillTable(t *testing.T, dir string) {
	t.Helper()
	live := t.TempDir()
	opened, err := store{dir: live}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := opened.(*Engine)
	stored := make(chan uint64)
	const jobs = 100
	for n := range jobs {
		go e.Put(engine.Put{Subject: fmt.Sprintf("job.mail.normal.%05d", n), Data: random(20_000)}, func(seq uint64, err error) { // ends when it is received below
			if err != nil {
				t.Error(err)
			}
			stored <- seq
		})
	}
	var all []uint64
	for range jobs {
		all = append(all, <-stored)
	}
	err = errors.Join(e.db.Flush(), e.db.Compact(t.Context(), []byte{0}, []byte{255}, false))
	for _, seq := range all {
		err = errors.Join(err, e.Delete(t.Context(), engine.Jobs, seq))
	}
	if err := errors.Join(err, os.CopyFS(dir, os.DirFS(live)), e.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// random gives bytes that cannot be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// damageLargestTable flips a bit in each page of the first half of the largest table.
func damageLargestTable(t *testing.T, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, dataDir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	var largest []byte
	var name string
	for _, table := range tables {
		if b, err := os.ReadFile(table); err == nil && len(b) > len(largest) {
			largest, name = b, table
		}
	}
	for at := len(largest) / 4; at < len(largest)/2; at += 4096 {
		largest[at] ^= 1
	}
	if err := os.WriteFile(name, largest, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCompactDamaged is run by TestDamageMetByACompaction in a process of its own: the
// compaction stands still until the process ends.
func TestCompactDamaged(t *testing.T) {
	dir := os.Getenv(damagedVariable)
	if dir == "" {
		return // this is not that process
	}
	opened, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil { // it has begun to compact by itself
		if !strings.Contains(err.Error(), ".sst") {
			t.Fatal(err)
		}
		fmt.Println("ended")
		os.Exit(0)
	}
	e := opened.(*Engine)
	go func() { _ = e.db.Compact(context.Background(), []byte{0}, []byte{255}, false) }() // does not end
	select {
	case <-e.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the engine does not say that it has failed")
	}
	if err := e.Err(); !errors.Is(err, engine.ErrFailed) || !strings.Contains(err.Error(), ".sst") {
		t.Fatalf("Err = %v, want ErrFailed and the file", err)
	}
	closing, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := e.Close(closing); err != nil && !errors.Is(err, engine.ErrFailed) {
		t.Fatalf("Close = %v", err)
	}
	fmt.Println("ended")
	os.Exit(0)
}
