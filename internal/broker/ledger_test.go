package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// book opens a ledger.
func book(t *testing.T, dir string, fresh bool) (*ledger, found) {
	t.Helper()
	l, f, err := openLedger(dir, fresh, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l, f
}

func shutBook(t *testing.T, l *ledger) {
	t.Helper()
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

func accepted(n int) waiter { return waiter{entry: engine.Entry{Kind: engine.Accepted, ID: number(n)}} }
func ended(n int) waiter    { return waiter{entry: engine.Entry{Kind: engine.Ended, ID: number(n)}} }

func words(ids []id) []string {
	var out []string
	for _, i := range ids {
		out = append(out, i.String())
	}
	return out
}

// lastLog returns the path of the newest file with records in it.
func lastLog(t *testing.T, dir string) string {
	t.Helper()
	files, _, err := ledgerFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Backward(files) {
		if f.size > recordSize {
			return f.path(dir)
		}
	}
	t.Fatal("there is no file with records")
	return ""
}

func TestLedgerNamesWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, f := book(t, dir, true)
	if len(f.ids) != 0 || !f.known {
		t.Errorf("a new ledger has %v", f)
	}
	l.add([]waiter{accepted(1), accepted(2), {entry: engine.Entry{Kind: engine.Other, ID: "x"}}, accepted(3)})
	l.add([]waiter{ended(2)})
	l.add([]waiter{ended(5), accepted(5)}) // the end came first
	l.add([]waiter{{entry: engine.Entry{Kind: engine.Accepted, ID: "no ULID"}}, ended(9)})
	shutBook(t, l)
	for range 2 * manyFiles { // each start makes a file; they are compacted
		l, f = book(t, dir, false)
		shutBook(t, l)
		if want := []string{number(1), number(3)}; !slices.Equal(words(f.ids), want) || !f.known || len(f.damage) > 0 {
			t.Fatalf("found %v %v %v, want %v", words(f.ids), f.known, f.damage, want)
		}
	}
	if files, _, err := ledgerFiles(dir); err != nil || len(files) > manyFiles+1 {
		t.Errorf("%d files: %v", len(files), err)
	}
	l, f = book(t, filepath.Join(dir, "other"), false)
	shutBook(t, l)
	if f.known {
		t.Error("a ledger that is missing is known")
	}
}

func TestDamagedLedger(t *testing.T) {
	t.Parallel()
	at := func(n int) int { return recordSize * (1 + n) }
	for _, c := range []struct {
		name   string
		harm   func(b []byte) []byte
		want   []int // of 0 to 9
		damage string
	}{
		{"torn tail", func(b []byte) []byte { return b[:len(b)-7] }, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, ""},
		{"zeros behind", func(b []byte) []byte { return append(b, make([]byte, 4000)...) }, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ""},
		{"garbled tail", func(b []byte) []byte { b[at(9)+8] ^= 1; return b }, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, ""},
		{"middle", func(b []byte) []byte { b[at(4)+8] ^= 1; return b }, []int{0, 1, 2, 3, 5, 6, 7, 8, 9}, fmt.Sprintf("byte %d does not hold", at(4))},
		{"head", func(b []byte) []byte { b[3] ^= 1; return b }, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "its head"},
		{"empty", func([]byte) []byte { return nil }, nil, ""},
		{"torn head", func(b []byte) []byte { return b[:5] }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l, _ := book(t, dir, true)
			for n := range 10 {
				l.add([]waiter{accepted(n)})
			}
			shutBook(t, l)
			path := lastLog(t, dir)
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, c.harm(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			l, f := book(t, dir, false)
			shutBook(t, l)
			var want []string
			for _, n := range c.want {
				want = append(want, number(n))
			}
			if !slices.Equal(words(f.ids), want) || !f.known {
				t.Errorf("found %v, want %v", words(f.ids), want)
			}
			if text := strings.Join(f.damage, "\n"); (c.damage == "") != (text == "") || !strings.Contains(text, c.damage) {
				t.Errorf("damage %q, want %q", text, c.damage)
			}
			l, f = book(t, dir, false)
			shutBook(t, l)
			if !slices.Equal(words(f.ids), want) {
				t.Errorf("found %v at the second time, want %v", words(f.ids), want)
			}
		})
	}
}

func TestMissingFileOfALedgerIsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range 3 {
		l, _ := book(t, dir, n == 0)
		l.add([]waiter{accepted(n)})
		shutBook(t, l)
	}
	if err := os.Remove(ledgerFile{number: 2, kind: logFile}.path(dir)); err != nil {
		t.Fatal(err)
	}
	l, f := book(t, dir, false)
	shutBook(t, l)
	if len(f.damage) != 1 || !strings.Contains(f.damage[0], "lacks its files 2 to 2") || len(f.ids) != 2 {
		t.Errorf("found %v, damage %v", words(f.ids), f.damage)
	}
}

func TestLedgerIsCompactedWhileItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := book(t, dir, true)
	l.limit = 64 << 10
	open := map[int]bool{}
	var longest time.Duration
	for n := range 40_000 {
		group := []waiter{accepted(n)}
		open[n] = true
		if n >= 50 && n%10 != 0 { // a tenth stays
			group = append(group, ended(n-50))
			delete(open, n-50)
		}
		start := time.Now()
		l.add(group)
		l.flush()
		longest = max(longest, time.Since(start))
		if l.limit > 1<<20 {
			l.limit = 64 << 10 // as if small were small
		}
	}
	if l.number < 3 {
		t.Errorf("only %d files were begun", l.number)
	}
	t.Logf("longest add %v, %d files begun, %d bytes", longest, l.number, l.size)
	shutBook(t, l)
	var size int64
	files, _, err := ledgerFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		size += f.size
	}
	if size != l.size {
		t.Errorf("the ledger has %d bytes and believes to have %d", size, l.size)
	}
	l, f := book(t, dir, false)
	shutBook(t, l)
	if len(f.damage) > 0 {
		t.Error(f.damage)
	}
	if len(f.ids) != len(open) {
		t.Errorf("%d have not ended, want %d", len(f.ids), len(open))
	}
	for _, i := range f.ids {
		var n int
		for _, b := range i[8:] {
			n = n<<8 | int(b)
		}
		if !open[n] {
			t.Fatalf("job %d has ended", n)
		}
	}
}

func TestCrashDuringACompactionLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := book(t, dir, true)
	l.add([]waiter{accepted(1), accepted(2), ended(1)})
	shutBook(t, l)
	old := lastLog(t, dir)
	data, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compact(nil, dir, 1); err != nil {
		t.Fatal(err)
	}
	// The old file is there again, and half of another snapshot.
	for path, b := range map[string][]byte{old: data, filepath.Join(dir, "000000000002.snap.new"): data[:30]} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, f := book(t, dir, false)
	shutBook(t, l)
	if !slices.Equal(words(f.ids), []string{number(2)}) || len(f.damage) > 0 {
		t.Errorf("found %v, damage %v", words(f.ids), f.damage)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the old file is still there")
	}
}

func TestTruncatedSnapshotIsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := book(t, dir, true)
	l.add([]waiter{accepted(1), accepted(2)})
	shutBook(t, l)
	if _, err := compact(nil, dir, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(lastLog(t, dir), 2*recordSize); err != nil {
		t.Fatal(err)
	}
	l, f := book(t, dir, false)
	shutBook(t, l)
	if len(f.damage) != 1 || !strings.Contains(f.damage[0], "it has 1 records, and was written with 2") {
		t.Errorf("damage %v", f.damage)
	}
}

func TestLedgerThatCannotBeWrittenIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var j journal
	l, _, err := openLedger(dir, true, j.logger())
	if err != nil {
		t.Fatal(err)
	}
	l.add([]waiter{accepted(1)})
	l.file.Close() // the next write fails
	l.add([]waiter{ended(1)})
	l.add([]waiter{accepted(2)})
	shutBook(t, l)
	if !strings.Contains(j.String(), "not counted any more") {
		t.Errorf("the log is %s", &j)
	}
	l, f := book(t, dir, false)
	shutBook(t, l)
	if f.known || len(f.ids) > 0 {
		t.Errorf("found %v %v: a count with holes reports jobs that are not lost", f.known, f.ids)
	}
}

func TestMillionUnended(t *testing.T) {
	dir := t.TempDir()
	const n = 1_000_000
	b := appendHead(nil, logFile, 0)
	for k := range n {
		i, _ := parseID(number(k))
		b = appendRecord(b, acceptedRecord, i)
	}
	if err := os.WriteFile(ledgerFile{number: 1, kind: logFile}.path(dir), b, 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	l, f := book(t, dir, false)
	t.Logf("%d read in %v", len(f.ids), time.Since(start))
	shutBook(t, l)
	if len(f.ids) != n {
		t.Errorf("%d found, want %d", len(f.ids), n)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var i id
		for k := range i {
			i[k] = byte(r.Uint32())
		}
		if back, ok := parseID(i.String()); !ok || back != i {
			t.Fatalf("%x became %s and %x", i[:], i, back[:])
		}
	}
	if text := "01ARZ3NDEKTSV4RRFFQ69G5FAV"; true {
		if i, ok := parseID(text); !ok || i.String() != text {
			t.Errorf("%s became %v, %v", text, i, ok)
		}
	}
	for _, bad := range []string{"", "01ARZ3NDEKTSV4RRFFQ69G5FA", "81ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAU", "01arz3ndektsv4rrffq69g5fav"} {
		if _, ok := parseID(bad); ok {
			t.Errorf("%q is taken for a ULID", bad)
		}
	}
}

func FuzzLedger(f *testing.F) {
	one, _ := parseID(number(1))
	whole := appendRecord(appendRecord(appendHead(nil, logFile, 0), acceptedRecord, one), endedRecord, one)
	f.Add(whole)
	f.Add(appendRecord(appendHead(nil, snapshotFile, 1), acceptedRecord, one))
	f.Add(whole[:len(whole)-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		c, err := readRecords(bytes.NewReader(b), func(k recordKind, _ id) {
			if n++; k != acceptedRecord && k != endedRecord {
				t.Errorf("kind %d", k)
			}
		})
		if err != nil || c.whole < 0 || c.torn < 0 || c.whole+c.torn != int64(len(b)) || n != c.records {
			t.Fatalf("%+v, %v of %d bytes", c, err, len(b))
		}
		// What is kept reads the same again, and has no tail.
		m := 0
		again, err := readRecords(bytes.NewReader(b[:c.whole]), func(recordKind, id) { m++ })
		if err != nil || m != n || again.torn != 0 && again.kind != 0 {
			t.Fatalf("%+v, %v, was %+v", again, err, c)
		}
	})
}
