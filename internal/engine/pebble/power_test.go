package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// cutter is a file system that can be asked for a copy of what a loss of power would
// leave, after any write: all that was synced, and of the rest a part at random.
type cutter struct {
	vfs.FS

	cuts func(after string) // called after each write and sync
	lies bool               // syncs nothing of what is written
}

func (c *cutter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return c.wrap(c.FS.Create(name, category))
}

func (c *cutter) OpenReadWrite(name string, category vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return c.wrap(c.FS.OpenReadWrite(name, category, o...))
}

func (c *cutter) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return c.wrap(c.FS.ReuseForWrite(oldName, newName, category))
}

func (c *cutter) Rename(oldName, newName string) error {
	err := c.FS.Rename(oldName, newName)
	c.cuts("rename")
	return err
}

func (c *cutter) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &cutFile{f, c}, nil
}

type cutFile struct {
	vfs.File

	of *cutter
}

func (f *cutFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.of.cuts("write")
	return n, err
}

func (f *cutFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.of.cuts("write")
	return n, err
}

func (f *cutFile) Sync() error {
	var err error
	if !f.of.lies {
		err = f.File.Sync()
	}
	f.of.cuts("sync")
	return err
}

func (f *cutFile) SyncData() error {
	var err error
	if !f.of.lies {
		err = f.File.SyncData()
	}
	f.of.cuts("sync")
	return err
}

// powerCuts is how many cuts one test makes.
func powerCuts() int {
	switch {
	case os.Getenv("BULLPEN_LONG") != "":
		return 100_000
	case testing.Short():
		return 300
	}
	return 5000
}

// A loss of power after any write of a random run: all that was confirmed is there,
// nothing that was confirmed as removed comes back, and the counts are right.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("BULLPEN_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("BULLPEN_SEED=%d repeats this, as far as goroutines do", seed)
	const each = 50 // cuts of one run
	made, began := 0, time.Now()
	for run := uint64(0); made < powerCuts() && !t.Failed(); run++ {
		n, faults := cutPower(t, rand.New(rand.NewPCG(seed, run)), each, false)
		made += n
		for _, f := range faults[:min(10, len(faults))] {
			t.Errorf("run %d: %.200s", run, f)
		}
	}
	t.Logf("%d cuts in %v", made, time.Since(began))
}

// The control: a disk that syncs nothing. What it loses has to be seen, or the test
// above says nothing.
func TestPowerCutsControl(t *testing.T) {
	t.Parallel()
	made, seen := 0, 0
	for run := range uint64(4) {
		n, faults := cutPower(t, rand.New(rand.NewPCG(1, run)), 50, true)
		made, seen = made+n, seen+len(faults)
	}
	if seen == 0 {
		t.Errorf("%d cuts of a disk that syncs nothing have lost nothing", made)
	}
}

// cut is what one loss of power has left, and what had been confirmed by then.
type cut struct {
	fs    *vfs.MemFS
	after string
	book  book
}

// cutPower makes one run, and opens what each loss of power has left.
func cutPower(t *testing.T, r *rand.Rand, most int, lies bool) (made int, faults []string) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	l := &model{sure: book{}, maybe: map[string]map[string]bool{}}
	var cuts []cut
	every := 1 + r.IntN(12)
	l.chance = rand.New(rand.NewPCG(r.Uint64(), 1))
	fs := &cutter{FS: mem, lies: lies}
	fs.cuts = func(after string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.writes++; len(cuts) >= most || l.writes%every != 0 {
			return
		}
		// What is confirmed by now is in what is left, whatever comes after.
		book, left := l.copy(), [...]int{0, 50, 100}[l.chance.IntN(3)]
		c := cut{after: after, book: book}
		c.fs = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: left, RNG: rand.New(rand.NewPCG(l.chance.Uint64(), 2))})
		cuts = append(cuts, c)
	}
	s := store{fs: fs, dir: "store"}
	for range 1 + r.IntN(2) {
		load(t, s, l, r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range cuts {
		l.check(t, &cuts[i])
	}
	return len(cuts), l.faults
}

// load opens the store, does things at random, and closes it.
func load(t *testing.T, s store, l *model, r *rand.Rand) {
	t.Helper()
	e, err := s.Open(t.Context(), engine.Options{Lease: time.Hour})
	if err != nil {
		t.Errorf("Open = %v", err)
		return
	}
	taker, err := e.Take(engine.Consumer{Queue: "mail", Priority: "normal"}, l.deliver, func(int) {})
	if err != nil {
		t.Errorf("Take = %v", err)
	} else {
		taker.Request(10+r.IntN(20), true)
	}
	for range 30 + r.IntN(40) {
		l.step(e, r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// check opens what a cut has left.
func (l *model) check(t *testing.T, c *cut) {
	t.Helper()
	e, err := store{fs: c.fs, dir: "store"}.Open(t.Context(), engine.Options{})
	if err != nil {
		l.fault("after a cut at a %s the store does not open: %v", c.after, err)
		return
	}
	defer e.Close(context.WithoutCancel(t.Context()))
	found := book{}
	info, err := e.Info(t.Context())
	if err != nil {
		l.fault("Info = %v", err)
		return
	}
	for _, s := range engine.Streams() {
		n, size := int64(0), int64(0)
		_, err := e.Walk(t.Context(), s, engine.Walk{}, func(m engine.Message) bool {
			n, size = n+1, size+int64(len(m.Subject)+len(m.Data))+overhead
			found[m.Subject] = string(m.Data)
			got, err := e.Get(t.Context(), s, m.Subject)
			if err != nil || string(got.Data) != string(m.Data) {
				l.fault("after a cut at a %s %s is walked over, and Get = %q, %v", c.after, m.Subject, got.Data, err)
			}
			return true
		})
		if u := info.Streams[s]; err != nil || u.Messages != n || u.Bytes != size {
			l.fault("after a cut at a %s %v has %d messages and %d bytes, and says %+v (%v)", c.after, s, n, size, u, err)
		}
	}
	l.compare(c, found)
	l.whole(c, found)
	d, err := e.Depth(t.Context(), engine.Consumer{Queue: "mail", Priority: "normal"})
	n, err2 := e.Matching(t.Context(), engine.Jobs, "job.mail.normal.*")
	if err := errors.Join(err, err2); err != nil || int64(d.Waiting) != n {
		l.fault("after a cut Depth = %+v, Matching = %d, %v", d, n, err)
	}
}

func (c *cut) String() string { return fmt.Sprintf("a cut at a %s", c.after) }
