package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// A loss of power at any write of a backup, and after it: a folder with the name of the
// backup is whole, and one that was confirmed is there.
func TestPowerCutsOfABackup(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	made, whole := 0, 0
	for run := uint64(0); made < powerCuts()/10 && !t.Failed(); run++ {
		n, there, faults := cutBackup(t, rand.New(rand.NewPCG(seed, run)), false)
		made, whole = made+n, whole+there
		for _, f := range faults[:min(10, len(faults))] {
			t.Errorf("run %d: %.200s", run, f)
		}
	}
	t.Logf("%d cuts; %d of them left a backup", made, whole)
}

// The control: a disk that syncs nothing.
func TestPowerCutsOfABackupControl(t *testing.T) {
	t.Parallel()
	if n, _, faults := cutBackup(t, rand.New(rand.NewPCG(1, 1)), true); len(faults) == 0 {
		t.Errorf("%d cuts of a disk that syncs nothing have damaged nothing", n)
	}
}

// cutBackup makes a backup while jobs come, and looks at what each loss of power has
// left: how many there were, how many left a backup, and what is wrong.
func cutBackup(t *testing.T, r *rand.Rand, lies bool) (made, whole int, faults []string) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	l := &model{sure: book{}, maybe: map[string]map[string]bool{}, chance: rand.New(rand.NewPCG(r.Uint64(), 1))}
	var cuts []*vfs.MemFS // guarded by l.mu, as what follows
	during := false
	clone := func() {
		left := [...]int{0, 50, 100}[l.chance.IntN(3)]
		cuts = append(cuts, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: left, RNG: rand.New(rand.NewPCG(l.chance.Uint64(), 2))}))
	}
	every := 1 + r.IntN(3)
	disk := &cutter{FS: mem, lies: lies, cuts: func(string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.writes++; during && l.writes%every == 0 {
			clone()
		}
	}}
	e, err := store{fs: disk, dir: "store"}.Open(t.Context(), engine.Options{Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.WithoutCancel(t.Context()))
	for range 30 + r.IntN(40) {
		l.step(e, r)
	}
	l.mu.Lock()
	during = true
	l.mu.Unlock()
	if err := e.(engine.Backuper).Backup(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	during = false
	for range 3 {
		clone()
	}
	for i, left := range cuts {
		if _, err := left.Stat("backup"); errors.Is(err, fs.ErrNotExist) {
			if i >= len(cuts)-3 {
				faults = append(faults, "a backup that was confirmed is gone")
			}
			continue
		}
		whole++
		s, err := Verify(t.Context(), Config{Dir: "backup", FS: left}, func(d Damage) { faults = append(faults, d.String()) })
		if err != nil || s.Jobs == 0 {
			faults = append(faults, fmt.Sprintf("cut %d of %d: %+v, %v", i, len(cuts), s, err))
		}
	}
	return len(cuts), whole, faults
}
