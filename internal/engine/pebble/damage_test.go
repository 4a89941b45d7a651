package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/leak"
)

// filled makes a store with messages in all streams, and closes it. As it was before
// that, it is copied to killed, if that is not empty: so a process leaves it that is
// killed.
func filled(t *testing.T, dir, killed string) map[string]string {
	t.Helper()
	e, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	answers := make(chan error)
	put := func(p engine.Put) {
		go e.Put(p, func(_ uint64, err error) { answers <- err }) // ends when it is received below
		want[fmt.Sprint(p.Stream, " ", p.Subject)] = string(p.Data)
	}
	const each = 150
	for i := range each {
		data := fmt.Appendf(nil, "%d %x", i, rand.Uint64())
		put(engine.Put{Subject: fmt.Sprintf("job.mail.normal.%05d", i), Data: data, New: true})
		put(engine.Put{Stream: engine.Outcomes, Subject: fmt.Sprintf("out.%05d", i), Data: data})
		put(engine.Put{Stream: engine.State, Subject: fmt.Sprintf("key.mail.%05d", i), Data: data})
		put(engine.Put{Stream: engine.Dead, Subject: fmt.Sprintf("dead.mail.%05d", i), Data: data})
	}
	for range 4 * each {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	if killed != "" {
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return want
}

// A bit that is flipped in any file of a store, one that was closed or one whose
// process was killed, is named as damage, or does no harm: no wrong message is found,
// and none is missing in silence.
func TestFlippedBits(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	closed, killed := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	want := filled(t, closed, killed)
	t.Run("closed", func(t *testing.T) { flipAll(t, closed, want, ".sst", "MANIFEST", formatFile) })
	t.Run("killed", func(t *testing.T) { flipAll(t, killed, want, ".log", "MANIFEST", formatFile) })
}

// flipAll flips bits in all files of a store. Those of some kinds have to matter.
func flipAll(t *testing.T, dir string, want map[string]string, matter ...string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rounds := 12
	if testing.Short() {
		rounds = 4
	} else if os.Getenv("BULLPEN_LONG") != "" {
		rounds = 1000
	}
	named := map[string]int{}
	for _, file := range files {
		for range rounds {
			if flipIn(t, dir, strings.TrimPrefix(file, dir), want) {
				named[filepath.Base(file)]++
			}
		}
	}
	t.Logf("named as damage, of %d flips a file: %v", rounds, named)
	for _, kind := range matter {
		found := false
		for name := range named {
			found = found || strings.Contains(name, kind)
		}
		if !found {
			t.Errorf("no flip in a file %s was named: the test has flipped nothing that matters", kind)
		}
	}
}

// flipIn flips a bit in a copy of one file of a store, and reports whether that is
// named as damage.
func flipIn(t *testing.T, dir, file string, want map[string]string) (named bool) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(copied)
	bits, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	if len(bits) == 0 {
		return false
	}
	bit := rand.IntN(8 * len(bits))
	bits[bit/8] ^= 1 << (bit % 8)
	if err := os.WriteFile(filepath.Join(copied, file), bits, 0o600); err != nil {
		t.Fatal(err)
	}
	err = readAll(t, copied, want)
	switch {
	case errors.Is(err, errSilent):
		t.Errorf("bit %d of byte %d of %s: %v", bit%8, bit/8, file, err)
	case err != nil && !strings.Contains(err.Error(), copied):
		t.Errorf("bit %d of byte %d of %s: the error names no file or folder: %v", bit%8, bit/8, file, err)
	}
	return err != nil
}

var errSilent = errors.New("damage in silence")

// readAll opens a store and compares it with what was put. Errors that are not
// errSilent say that there is damage.
func readAll(t *testing.T, dir string, want map[string]string) error {
	t.Helper()
	e, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		return err
	}
	defer e.Close(context.Background())
	found := 0
	for _, s := range engine.Streams() {
		var wrong error
		_, err := e.Walk(t.Context(), s, engine.Walk{}, func(m engine.Message) bool {
			found++
			if data, ok := want[fmt.Sprint(s, " ", m.Subject)]; !ok || data != string(m.Data) {
				wrong = fmt.Errorf("%w: %s holds %q, want %q", errSilent, m.Subject, m.Data, data)
			}
			return wrong == nil
		})
		if err := errors.Join(wrong, err); err != nil {
			return err
		}
	}
	if found != len(want) {
		return fmt.Errorf("%w: %d messages are found of %d", errSilent, found, len(want))
	}
	for key, data := range want {
		subject := key[strings.IndexByte(key, ' ')+1:]
		for _, s := range engine.Streams() {
			if !strings.HasPrefix(key, s.String()+" ") {
				continue
			}
			if m, err := e.Get(t.Context(), s, subject); errors.Is(err, engine.ErrNotFound) {
				return fmt.Errorf("%w: %s is not found", errSilent, subject)
			} else if err != nil {
				return err
			} else if string(m.Data) != data {
				return fmt.Errorf("%w: %s holds %q", errSilent, subject, m.Data)
			}
		}
	}
	return nil
}

// A file that is missing is named.
func TestMissingFiles(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "store")
	want := filled(t, dir, "")
	entries, err := os.ReadDir(filepath.Join(dir, dataDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		copied := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(copied, dataDir, entry.Name())); err != nil {
			t.Fatal(err)
		}
		if err := readAll(t, copied, want); err == nil || !strings.Contains(err.Error(), entry.Name()) {
			t.Errorf("without %s the store opens with %v, want an error that names it", entry.Name(), err)
		}
	}
}

// A table is damaged where the messages stand that were in somebody's hands, which are
// looked up when the store is opened: the error says which store it is.
func TestDamageOfHandouts(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "store")
	e, err := store{dir: dir}.Open(t.Context(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := engine.Consumer{Queue: "mail", Priority: "normal"}
	for i := range 20 {
		answer := make(chan error, 1)
		e.Put(engine.Put{Subject: engine.JobSubject(c, rising(i)), Data: noise(4000)}, func(_ uint64, err error) { answer <- err })
		if err := <-answer; err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range takeSome(t, e, c, 20) {
		if i%2 == 0 {
			d.Ack()
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, dataDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%v, %v, want tables", tables, err)
	}
	named := 0
	for _, table := range tables {
		info, err := os.Stat(table)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < info.Size(); at += 1000 {
			copied := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			flipAt(t, filepath.Join(copied, dataDir, filepath.Base(table)), at)
			e, err := store{dir: copied}.Open(t.Context(), engine.Options{})
			if err == nil {
				e.Close(t.Context())
			} else if named++; !strings.Contains(err.Error(), copied) {
				t.Errorf("byte %d of %s is damaged, and Open = %v", at, filepath.Base(table), err)
			}
		}
	}
	t.Logf("%d damages kept the store from being opened", named)
	if named == 0 {
		t.Error("no damage kept the store from being opened: the test has damaged nothing that matters")
	}
}

// flipAt flips the bits of a byte of a file.
func flipAt(t *testing.T, file string, at int64) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		text[at] ^= 0xff
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// noise gives bytes that cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}
