package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// verified verifies a folder and gives the damages in words. It fails the test when the
// folder has changed.
func verified(t *testing.T, dir string) (Summary, []string) {
	t.Helper()
	before := contents(t, dir)
	var damages []string
	s, err := Verify(t.Context(), Config{Dir: dir}, func(d Damage) { damages = append(damages, d.String()) })
	if err != nil {
		damages = append(damages, err.Error())
	} else if int(s.Damages) != len(damages) {
		t.Errorf("%d damages are counted, and %d were reported", s.Damages, len(damages))
	}
	for name, text := range contents(t, dir) {
		if before[name] != text {
			t.Errorf("%s has changed", name)
		}
		delete(before, name)
	}
	if len(before) > 0 {
		t.Errorf("these are gone: %v", before)
	}
	return s, damages
}

// contents gives all files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// used makes a store by a random run, and closes it. A copy of it, as a process that is
// killed leaves it, is made at killed.
func used(t *testing.T, dir, killed string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, rand.Uint64()))
	e, err := store{dir: dir}.Open(t.Context(), engine.Options{Namespace: "one", OutcomeCount: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	l := &model{sure: book{}, maybe: map[string]map[string]bool{}, chance: r}
	work := func(n int) {
		for range n {
			l.step(e, r)
		}
	}
	work(120)
	c := engine.Consumer{Queue: "mail", Priority: "normal"}
	for i, d := range takeSome(t, e, c, 20) {
		if i%2 == 0 {
			d.Ack()
		}
	}
	if err := e.Pause(t.Context(), c, true); err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // some are replaced, so that the notes of their times stay
		wait(t, e, engine.Put{Stream: engine.State, Subject: fmt.Sprint("try.", i%10), TTL: time.Hour, Data: []byte("x")})
	}
	work(120)
	wait(t, e, engine.Put{Stream: engine.Dead, Subject: "dead.mail.last"}) // all before it has been answered
	if killed != "" {
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wait puts and waits for the answer.
func wait(t *testing.T, e engine.Engine, p engine.Put) {
	t.Helper()
	answer := make(chan error, 1)
	e.Put(p, func(_ uint64, err error) { answer <- err })
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
}

func TestVerifyWhole(t *testing.T) {
	t.Parallel()
	dir, killed := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	used(t, dir, killed)
	for _, dir := range []string{dir, killed, dir} {
		s, damages := verified(t, dir)
		if len(damages) > 0 {
			t.Errorf("%s is damaged: %s", dir, strings.Join(damages, "\n"))
		}
		if s.Jobs == 0 || s.Scheduled == 0 || s.Outcomes != 10 || s.State == 0 || s.Dead == 0 || s.Keys == 0 || s.Bytes == 0 || s.Taken < 10 {
			t.Errorf("Verify = %+v, want something of everything, and 10 outcomes", s)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	e, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	empty, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{dir: "in use", empty: "not a store", file: "not a folder", filepath.Join(empty, "none"): "none", "": "Dir is empty"} {
		_, err := Verify(t.Context(), Config{Dir: dir}, func(d Damage) { t.Error(d) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Verify of %q = %v, want it to say %q", dir, err, want)
		}
	}
	if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
		t.Errorf("%v, %v are there in what was an empty folder", names, err)
	}
}

// A bit that is flipped in any file of a store is named, or the store holds what it
// held.
func TestVerifyFlippedBits(t *testing.T) {
	t.Parallel()
	closed, killed := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	filled(t, closed, killed)
	for dir, always := range map[string]bool{closed: true, killed: false} {
		before, _ := verified(t, dir)
		for path, text := range contents(t, dir) {
			name := strings.TrimPrefix(path, dir)
			if text == "" || filepath.Base(path) == holderFile {
				continue
			}
			rounds := 2
			if os.Getenv("BULLPEN_LONG") != "" {
				rounds = 300
			}
			for range rounds {
				flipAndVerify(t, dir, name, text, before, always && filepath.Base(path) != syncedFile)
			}
		}
	}
}

// flipAndVerify flips a bit in a copy of a file. With always it has to be named.
func flipAndVerify(t *testing.T, dir, name, text string, before Summary, always bool) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(copied)
	bits, bit := []byte(text), rand.IntN(8*len(text))
	bits[bit/8] ^= 1 << (bit % 8)
	if err := os.WriteFile(filepath.Join(copied, name), bits, 0o600); err != nil {
		t.Fatal(err)
	}
	after, damages := verified(t, copied)
	switch all := strings.Join(damages, "\n"); {
	case len(damages) == 0 && always:
		t.Errorf("bit %d of byte %d of %s: no damage is named", bit%8, bit/8, name)
	case len(damages) == 0 && before != after:
		t.Errorf("bit %d of byte %d of %s: the store is said to be whole and to hold %+v, want %+v", bit%8, bit/8, name, after, before)
	case always && !strings.Contains(all, copied+name) && name != "/"+formatFile:
		t.Errorf("bit %d of byte %d of %s: the file is not named: %s", bit%8, bit/8, name, all)
	}
}

// A table of which a part cannot be read: the jobs whose messages stand there are
// named.
func TestVerifyNamesJobs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	filled(t, dir, "")
	tables, err := filepath.Glob(filepath.Join(dir, dataDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	named := map[string]bool{}
	for range 200 {
		table := tables[rand.IntN(len(tables))]
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		at := rand.IntN(len(text))
		damaged := append([]byte(nil), text...)
		damaged[at] ^= 1
		if err := os.WriteFile(table, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Verify(t.Context(), Config{Dir: dir}, func(d Damage) {
			if d.Job != "" && d.Kind == "index" {
				named[d.Stream] = true
			}
		})
		if err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(table, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if len(named) > 0 {
			return
		}
	}
	t.Error("no ids were named")
}

// change opens the database of a folder and changes it behind the store's back.
func change(t *testing.T, dir string, do func(db *pebble.DB, n space) error) {
	t.Helper()
	o := &pebble.Options{FormatMajorVersion: logFormat, Logger: &logger{log: Config{}.withDefaults().Options.Logger, halt: func(err error) { t.Error(err) }}}
	db, err := pebble.Open(filepath.Join(dir, dataDir), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(db, 1); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, sealFile)); err != nil {
		t.Fatal(err)
	}
}

// contradiction is a change behind the back of a store, and what is said of it.
type contradiction struct {
	do   func(db *pebble.DB, n space) error
	says []string
}

func contradictions() map[string]contradiction {
	c := engine.Consumer{Queue: "mail", Priority: "normal"}
	set := func(key func(n space) []byte, value []byte) func(*pebble.DB, space) error {
		return func(db *pebble.DB, n space) error { return db.Set(key(n), value, pebble.Sync) }
	}
	gone := func(key func(n space) []byte) func(*pebble.DB, space) error {
		return func(db *pebble.DB, n space) error { return db.Delete(key(n), pebble.Sync) }
	}
	const subject = "job.mail.normal.00007"
	strayed := item{subject: "job.mail.normal.strayed", data: []byte("x"), time: 1}
	return map[string]contradiction{
		"no message": {func(db *pebble.DB, n space) error {
			entries, err := readIndex(db, n.index(engine.Jobs, subject))
			if err != nil {
				return err
			}
			return db.Delete(n.message(engine.Jobs, entries[0].seq), pebble.Sync)
		}, []string{"index of jobs", subject, "its message is missing", "no such job to deliver", "149 messages", "number of jobs"}},
		"no index":    {gone(func(n space) []byte { return n.index(engine.Jobs, subject) }), []string{subject, "missing in the index"}},
		"no dead":     {gone(func(n space) []byte { return n.index(engine.Dead, "dead.mail.00003") }), []string{"message of dead", "dead.mail.00003"}},
		"no counts":   {gone(func(n space) []byte { return n.key(kindCounts, 0) }), []string{"counts of jobs", "counts of outcomes", "counts of state", "counts of dead"}},
		"no number":   {gone(func(n space) []byte { return n.number(engine.Dead, "dead.mail") }), []string{"number of dead on dead.mail.*", "there are 150 messages, but the store counts 0"}},
		"bad counts":  {set(func(n space) []byte { return n.key(kindCounts, 0) }, []byte{1}), []string{"counts differ"}},
		"bad number":  {set(func(n space) []byte { return n.number(engine.Jobs, "job.a.b") }, []byte{0xff}), []string{"number differs"}},
		"bad message": {set(func(n space) []byte { return n.message(engine.Outcomes, 9) }, []byte{9}), []string{"message of outcomes number 9", "differs from what was written", "index of outcomes"}},
		"bad index":   {set(func(n space) []byte { return n.index(engine.State, "key.mail.00001") }, []byte{9}), []string{"index of state", "key.mail.00001", "entry differs from what was written"}},
		"wrong size":  {set(func(n space) []byte { return n.index(engine.State, "set.new.one") }, appendEntries(nil, []entry{{1, 5}})), []string{"set.new.one", "on the subject key.mail."}},
		"stray job":   {set(func(n space) []byte { return n.message(engine.Jobs, 500) }, strayed.encode(nil)), []string{"number 500", "strayed", "missing in the index", "missing in the list of jobs to deliver", "highest with number 500"}},
		"stray ready": {set(func(n space) []byte { return n.ready(c, 700) }, appendTime(nil, 1)), []string{"ready of jobs number 700", "no such job"}},
		"wrong ready": {set(func(n space) []byte { return n.ready(engine.Consumer{Queue: "other", Priority: "low"}, 3) }, appendTime(nil, 1)), []string{"ready of jobs number 3", "other.low"}},
		"wrong time":  {set(func(n space) []byte { return n.ready(c, 5) }, appendTime(nil, 1)), []string{"ready of jobs number 5", "start of its wait"}},
		"stray timed": {set(func(n space) []byte { return n.timed(1, engine.State, 900) }, nil), []string{"timed of state number 900"}},
		"bad timed":   {set(func(n space) []byte { return n.key(kindTimed, 0) }, nil), []string{"names no time"}},
		"bad paused":  {set(func(n space) []byte { return append(n.key(kindPaused, 0), "mail"...) }, nil), []string{"names no consumer"}},
		"bad ready":   {set(func(n space) []byte { return n.key(kindReady, 0) }, nil), []string{"names no consumer"}},
		"bad subject": {set(func(n space) []byte { return n.indexFrom(engine.Jobs, "x") }, nil), []string{"names no subject"}},
		"no stream":   {set(func(n space) []byte { return append(n.key(kindIndex, 0), 7) }, nil), []string{"to no stream"}},
		"no kind":     {set(func(n space) []byte { return n.key('x', 0) }, nil), []string{"unknown kind"}},
		"no space":    {set(func(n space) []byte { return (n + 5).key(kindCounts, 0) }, nil), []string{"to no namespace"}},
		"low space":   {set(func(space) []byte { return space(0).key('x', 0) }, nil), []string{"to no namespace"}},
		"short key":   {set(func(space) []byte { return []byte{1} }, nil), []string{"to no namespace"}},
		"bad name":    {set(func(space) []byte { return nameKey("other") }, []byte{1}), []string{`name in namespace "other"`}},
		"two names":   {set(func(space) []byte { return nameKey("other") }, binary.BigEndian.AppendUint16(nil, 1)), []string{`namespace "other"`, "as has"}},
	}
}

// What contradicts itself is named, though all checksums are right.
func TestVerifyContradictions(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "store")
	filled(t, whole, "")
	for name, want := range contradictions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			change(t, dir, want.do)
			_, damages := verified(t, dir)
			for _, words := range want.says {
				if !strings.Contains(strings.Join(damages, "\n"), words) {
					t.Errorf("the damages do not say %q: %s", words, strings.Join(damages, "\n"))
				}
			}
		})
	}
}
