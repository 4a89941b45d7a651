//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bullpen-run/bullpen"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	p := open(t, Config{
		Command: []string{"sh", "not used"}, Protocol: Exec, Max: 2,
		Arguments: func(t bullpen.Task, slot int) ([]string, bool) {
			return []string{"-c", `echo "$0 $1"; cat`, t.ID, strconv.Itoa(slot)}, t.Name == "stdin"
		},
	})
	for _, c := range []struct{ name, want string }{{"stdin", "7 1\nin"}, {"argument", "7 1\n"}} {
		r, err := p.Execute(context.Background(), bullpen.Task{ID: "7", Name: c.name, Payload: []byte("in")})
		if err != nil || string(r.Payload) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, r.Payload, err, c.want)
		}
	}
}

func TestArgumentsNeedExec(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Command: []string{"cat"}, Protocol: Lines, Arguments: func(bullpen.Task, int) ([]string, bool) { return nil, true }})
	if err == nil || !strings.Contains(err.Error(), "Arguments is for the protocol exec only") {
		t.Errorf("%v", err)
	}
}

// No two processes that run at a time have the same slot, and none is above Max.
func TestSlots(t *testing.T) {
	t.Parallel()
	const most = 3
	folder := t.TempDir()
	var high atomic.Int64
	p := open(t, Config{
		Command: []string{"sh"}, Protocol: Exec, Max: most, Idle: 1, // places come and go
		Arguments: func(t bullpen.Task, slot int) ([]string, bool) {
			if slot < 1 || slot > most {
				high.Store(int64(slot))
			}
			return []string{"-c", `mkdir "$0" && rmdir "$0"`, filepath.Join(folder, strconv.Itoa(slot))}, false
		},
	})
	var all sync.WaitGroup
	for range 60 {
		all.Add(1)
		err := p.Submit(context.Background(), bullpen.Task{}, func(_ bullpen.Result, err error) {
			defer all.Done()
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if n := high.Load(); n != 0 {
		t.Errorf("a process had slot %d of %d", n, most)
	}
}

// whole keeps standard error.
type whole struct {
	mu     sync.Mutex
	pieces [][]byte
	lines  int
}

func (w *whole) Progress(float64, string) {}

func (w *whole) Log(bullpen.LogLine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines++
}

func (w *whole) Stderr(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pieces = append(w.pieces, bytes.Clone(b))
}

func TestStderrWhole(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{"sh", "-c", "{}"}, Protocol: Exec})
	var many strings.Builder
	for i := range 100000 {
		fmt.Fprintln(&many, i+1)
	}
	for _, c := range []struct{ script, want string }{
		{"true", ""},
		{"echo a >&2; printf b >&2", "a\nb"},
		{"seq 100000 >&2", many.String()},
		{"head -c 200000 /dev/zero >&2; exit 3", strings.Repeat("\x00", 200000)},
	} {
		w := &whole{}
		_, err := p.Execute(context.Background(), bullpen.Task{Payload: []byte(c.script), Observer: w})
		if (err != nil) != strings.HasSuffix(c.script, "3") {
			t.Errorf("%s: %v", c.script, err)
		}
		if got := bytes.Join(w.pieces, nil); string(got) != c.want {
			t.Errorf("%s: %d bytes, want %d", c.script, len(got), len(c.want))
		}
		for _, piece := range w.pieces {
			if len(piece) == 0 || len(piece) > stderrPiece {
				t.Errorf("%s: a piece of %d bytes", c.script, len(piece))
			}
		}
		if w.lines > 0 {
			t.Errorf("%s: %d lines besides", c.script, w.lines)
		}
	}
	w := &whole{}
	_, err := p.Execute(context.Background(), bullpen.Task{Payload: []byte("seq 50000 >&2; exit 3"), Observer: w})
	te, ok := errors.AsType[*bullpen.TaskError](err)
	if !ok {
		t.Fatal(err)
	}
	if !strings.HasSuffix(te.Message, ": 50000") || !strings.HasSuffix(te.Detail, "49999\n50000") {
		t.Errorf("the last lines are lost: %q, %q", te.Message, te.Detail)
	}
}
