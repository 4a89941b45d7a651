//go:build linux

package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// book has what the lives of a node have reported.
type book struct {
	mu        sync.Mutex
	confirmed map[string]string // the queue of each confirmed job; guarded by mu
	ended     map[string]string // in which life the outcome was durable; guarded by mu
	inHand    map[string]int    // the most jobs in hand in a life; guarded by mu
	faults    []string          // guarded by mu
}

func newBook() *book {
	return &book{confirmed: map[string]string{}, ended: map[string]string{}, inHand: map[string]int{}}
}

// note takes a line of a node; up says that the node is ready.
func (b *book) note(life, line string) (up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	word, rest, _ := strings.Cut(line, " ")
	id, more, _ := strings.Cut(rest, " ")
	switch word {
	case "up":
		return true
	case "confirmed":
		b.confirmed[id] = more
	case "ended":
		b.confirmed[id], b.ended[id] = workQueue, life
		if more != "true" {
			b.faults = append(b.faults, "job "+id+" has another result")
		}
	case "in-hand":
		var n int
		if _, err := fmt.Sscan(rest, &n); err == nil {
			b.inHand[life] = max(b.inHand[life], n)
		}
	default:
		b.faults = append(b.faults, line)
	}
	return false
}

// copies gives what is confirmed and what has ended up to now.
func (b *book) copies() (confirmed, ended map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.confirmed), maps.Clone(b.ended)
}

func (b *book) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.confirmed)
}

// healthy fails the test when a node had something to complain of.
func (b *book) healthy(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, f := range b.faults {
		if i < 10 {
			t.Errorf("a node says: %s", f)
		}
	}
}

// node is a process that has a store open.
type node struct {
	cmd   *exec.Cmd
	stdin io.Closer
	up    chan struct{} // closed when it is ready
	read  chan struct{} // closed when all that it said is in the book
}

// startNode starts this binary as a node. It does not wait until it is up.
func startNode(t *testing.T, c nodeConfig, b *book) *node {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cmd: exec.Command(exe), up: make(chan struct{}), read: make(chan struct{})}
	n.cmd.Env = append(os.Environ(), nodeVar+"="+string(text), "GORACE=halt_on_error=1")
	n.cmd.Stderr = os.Stderr
	stdout, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if n.stdin, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process; kill waits
		defer close(n.read)
		up := sync.OnceFunc(func() { close(n.up) })
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if b.note(c.Life, lines.Text()) {
				up()
			}
		}
	}()
	t.Cleanup(n.kill)
	return n
}

// ready waits until the node is up.
func (n *node) ready(t *testing.T, b *book) {
	t.Helper()
	select {
	case <-n.up:
	case <-n.read:
		b.healthy(t)
		t.Fatal("the node ended before it was up")
	case <-time.After(patience):
		t.Fatal("the node does not come up")
	}
}

// loaded waits until the node has confirmed so many more jobs.
func (n *node) loaded(t *testing.T, b *book, more int) {
	t.Helper()
	want := b.size() + more
	until(t, fmt.Sprintf("%d more jobs are confirmed", more), func() bool {
		select {
		case <-n.read:
			b.healthy(t)
			t.Fatal("the node ended by itself")
		default:
		}
		return b.size() >= want
	})
}

// kill ends the node by SIGKILL. It may be called again.
func (n *node) kill() {
	_ = n.cmd.Process.Kill() // an error says that it has ended
	<-n.read
	_ = n.cmd.Wait() // says that it was killed
	n.stdin.Close()
}

// storeOf is the store of a node: the embedded one, or the control.
func storeOf(c *nodeConfig) queue.Store {
	if c.Lazy {
		return lazyStore{c.Dir}
	}
	return embedded.At(c.Dir)
}

// lazyStore is the control: the same store, on a file system that syncs nothing of what
// is written.
type lazyStore struct{ dir string }

func (s lazyStore) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	return pebble.Open(ctx, pebble.Config{Dir: s.dir, FS: lazyFS{vfs.Default}, Options: o})
}

// lazyFS syncs no file that it opens for writing.
type lazyFS struct{ vfs.FS }

func (f lazyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return lazyFile{file}, err
}

func (f lazyFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldName, newName, category)
	return lazyFile{file}, err
}

type lazyFile struct{ vfs.File }

func (lazyFile) Sync() error                { return nil }
func (lazyFile) SyncData() error            { return nil }
func (lazyFile) SyncTo(int64) (bool, error) { return false, nil }
