package confine

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

func TestMemory(t *testing.T) {
	if f := probe.Memfd(); !f.OK {
		t.Skip("no memory files: " + f.Detail)
	}
	const size = 1 << 30 // sparse: takes nothing
	m, err := NewMemory("confine-test", size)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Bytes()) != size {
		t.Fatalf("%d bytes", len(m.Bytes()))
	}
	for _, to := range []int64{0, size - 4096, size + 4096} {
		if err := m.File().Truncate(to); !errors.Is(err, unix.EPERM) {
			t.Errorf("its size can be changed to %d: %v", to, err)
		}
	}
	copy(m.Bytes(), "from the host")
	s := newSpawner(t, Profile{Guard: true})
	child, host := readPipe(t)
	c := begin(t, s, shell(`head -c 13 /proc/self/fd/3; printf 'from the child' | dd of=/proc/self/fd/3 bs=1 seek=4096 conv=notrunc 2>/dev/null; echo`, nil, child, nil, m.File()))
	child.Close()
	if got := readLine(t, host); got != "from the host" {
		t.Errorf("the child reads %q", got)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("%v, %v", e, err)
	}
	if got := string(m.Bytes()[4096 : 4096+14]); got != "from the child" {
		t.Errorf("the host reads %q", got)
	}
	for range 2 {
		if err := m.Close(); err != nil || m.Bytes() != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestMemoryRefused(t *testing.T) {
	for _, size := range []int{0, -1, 1 << 62} {
		if m, err := NewMemory("confine-test", size); err == nil {
			t.Errorf("%d bytes were given", size)
			m.Close()
		}
	}
}

func TestRSS(t *testing.T) {
	got, err := RSS(os.Getpid())
	if err != nil || got < 1<<20 || got > 8<<30 {
		t.Errorf("%d bytes, %v", got, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = RSS(os.Getpid()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	s := newSpawner(t, Profile{})
	c := begin(t, s, shell("exit 0"))
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := RSS(c.Pid()); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("of a process that has ended: %v", err)
	}
}

func TestSecondNumber(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		ok   bool
	}{
		{"100 20 3 4\n", 20, true}, {"0 0 0\n", 0, true}, {"1 9", 9, true},
		{"", 0, false}, {"5", 0, false}, {"5 ", 0, false}, {"5 x", 0, false},
		{"1 99999999999999999999999", 0, false},
	} {
		if n, ok := secondNumber([]byte(c.text)); n != c.n || ok != c.ok {
			t.Errorf("%q: %d, %v", c.text, n, ok)
		}
	}
}

func BenchmarkRSS(b *testing.B) {
	b.ReportAllocs()
	pid := os.Getpid()
	for b.Loop() {
		if _, err := RSS(pid); err != nil {
			b.Fatal(err)
		}
	}
}
