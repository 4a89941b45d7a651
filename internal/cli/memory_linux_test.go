package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMemoryIsBounded holds the first line back while all the others could be
// answered: reading must stop, and memory with it, although the input has
// 100 MB; then everything comes out in order.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it maps 100 MB: run it without -short")
	}
	const lines, width = 200_000, 500
	cmd := mapCommand(t)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fill := bytes.Repeat([]byte("x"), width)
	var written atomic.Int64
	go func() { // ends when all is written, or the command is dead
		w := bufio.NewWriter(in)
		fmt.Fprintln(w, "wait go")
		for i := 1; i < lines; i++ {
			fmt.Fprintf(w, "%d %s\n", i, fill)
			written.Add(1)
		}
		_ = w.Flush() // a command that died is seen below
		in.Close()
	}()
	if n := stalls(&written); n == lines-1 {
		t.Error("the whole input was read while its first line was held back")
	}
	if err := os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := inOrder(t, out)
	if n != lines {
		t.Errorf("%d lines came out, want %d", n, lines)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("peak memory %d MiB, with -race if the test has it", peak)
	// Without the race detector, whose shadow of this binary counts, it is 36 MiB.
	if peak > 240 {
		t.Errorf("peak memory is %d MiB for an input of 100 MB", peak)
	}
}

// mapCommand makes the command of a run with -k in a folder of its own.
func mapCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bullpen", "filter"} {
		if err := os.Symlink(self, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(folder, "bullpen"), "map", "-k", "-j", "2", "--window", "1", "--", filepath.Join(folder, "filter"))
	cmd.Dir = folder
	return cmd
}

// inOrder counts the lines that come out in their order, behind the first.
func inOrder(t *testing.T, out io.Reader) int {
	t.Helper()
	scan := bufio.NewScanner(out)
	scan.Scan()
	n := 1
	for ; scan.Scan(); n++ {
		var got int
		if _, err := fmt.Sscanf(scan.Text()[:min(12, len(scan.Text()))], "%d ", &got); err != nil || got != n {
			t.Errorf("line %d is %.20q", n, scan.Text())
			break
		}
	}
	return n
}

// stalls waits until n no longer grows.
func stalls(n *atomic.Int64) int64 {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for last := int64(-1); ; {
		<-tick.C
		now := n.Load()
		if now == last && now > 0 {
			return now
		}
		last = now
	}
}
