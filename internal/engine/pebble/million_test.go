package pebble

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// TestMillion has a million jobs wait. They cost disk, and not memory, and the store
// opens soon, after an orderly end and after the death of its process. It logs the
// figures.
func TestMillion(t *testing.T) {
	if os.Getenv("BULLPEN_LONG") == "" {
		t.Skip("it puts a million jobs, which takes half a minute; set BULLPEN_LONG")
	}
	const n = 1_000_000
	dir := t.TempDir()
	closed, killed := filepath.Join(dir, "closed"), filepath.Join(dir, "killed")
	e, err := Open(t.Context(), Config{Dir: closed})
	if err != nil {
		t.Fatal(err)
	}
	putMany(t, e, n)
	if err := os.CopyFS(killed, os.DirFS(closed)); err != nil { // as it is left when the process dies
		t.Fatal(err)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{closed, killed} {
		debug.FreeOSMemory()
		began := time.Now()
		e, err := Open(t.Context(), Config{Dir: of})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		got := make(chan engine.Delivery, 1)
		taker, err := e.Take(engine.Consumer{Queue: "mail", Priority: "normal"}, func(d engine.Delivery) { got <- d }, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		taker.Request(1, true)
		d := <-got
		t.Logf("%s: opened after %v, the first job after %v, %s resident", filepath.Base(of), took, time.Since(began), resident())
		if d.Seq != 1 || d.Waiting != n-1 {
			t.Errorf("the first is number %d, and %d more wait", d.Seq, d.Waiting)
		}
		if took > 20*time.Second {
			t.Errorf("it took %v to open the store, want a second or less", took)
		}
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc > 200<<20 {
			t.Errorf("%d bytes of heap are in use with a million jobs that wait", m.HeapAlloc)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// putMany puts n jobs by 64 callers.
func putMany(t *testing.T, e *Engine, n int) {
	t.Helper()
	began := time.Now()
	var group sync.WaitGroup
	for c := range 64 {
		group.Go(func() {
			for i := c; i < n; i += 64 {
				if err := e.wait(engine.Put{Subject: "job.mail.normal." + rising(i), Data: make([]byte, 200), New: true, Durable: true}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d jobs put in %v, %s resident", n, time.Since(began), resident())
}

// resident says how much memory this process has, where that is known.
func resident() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS:") {
			return strings.Join(strings.Fields(line)[1:], " ")
		}
	}
	return fmt.Sprint("unknown on ", runtime.GOOS)
}
