//go:build linux

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// disk is an ext4 file system in an image that lies on a file system which copies
// a file at one instant. What such a copy holds is what had reached the device;
// what sat in the page cache above it is dropped.
type disk struct {
	root  string // the mounted outer file system
	image string // of the inner one
	dir   string // the mounted inner one
}

// newDisk makes a disk on an outer file system of the kind, or skips.
func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	for _, tool := range []string{"mkfs." + kind, "mkfs.ext4", "mount", "cp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install xfsprogs or btrfs-progs, and e2fsprogs", err)
		}
	}
	base := t.TempDir()
	d := &disk{root: filepath.Join(base, "outer"), dir: filepath.Join(base, "inner")}
	outer := filepath.Join(base, "outer.img")
	sparse(t, outer, 4<<30)
	flags := map[string][]string{"xfs": {"-q", "-m", "reflink=1"}, "btrfs": {"-q"}}[kind]
	command(t, "mkfs."+kind, append(flags, outer)...)
	if err := mount(t, outer, d.root); err != nil {
		t.Skipf("no loop device: %v", err)
	}
	d.image = filepath.Join(d.root, "inner.img")
	sparse(t, d.image, 1<<30)
	command(t, "mkfs.ext4", "-q", "-F", d.image)
	if err := mount(t, d.image, d.dir); err != nil {
		t.Skipf("no second loop device: %v", err)
	}
	return d
}

func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	err := os.WriteFile(path, nil, 0o600)
	if err == nil {
		err = os.Truncate(path, size)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if err := try(name, args...); err != nil {
		t.Fatal(err)
	}
}

func try(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// mount mounts an image until the end of the test.
func mount(t *testing.T, image, at string) error {
	t.Helper()
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if err := try("mount", "-o", "loop", image, at); err != nil {
		return err
	}
	t.Cleanup(func() { unmount(t, at) })
	return nil
}

// unmount undoes mount. A file that was just closed may keep it for a moment.
func unmount(t *testing.T, at string) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); pause(20 * time.Millisecond) {
		if err = try("umount", at); err == nil || strings.Contains(err.Error(), "not mounted") {
			return
		}
	}
	t.Error(err)
}

// powerLoad is a node with 64 callers that enqueue without a pause; 7 of 10 jobs
// are worked off at once, so that blocks are rewritten and compacted.
func powerLoad(dir string) nodeConfig {
	return nodeConfig{Dir: dir, Lease: time.Second, Concurrency: 16, Enqueuers: 64, Kept: 30, Waited: 90, Payload: 4096, Life: "0"}
}

// cut runs a node on d, copies the image at a random moment under load, kills the
// node, and gives what was confirmed before the copy, and the folder of the store
// in the copy.
func (d *disk) cut(t *testing.T, lazy bool) (b *book, dir string) {
	t.Helper()
	b = newBook()
	c := powerLoad(filepath.Join(d.dir, "store"))
	c.Lazy = lazy
	n := startNode(t, c, b)
	n.ready(t, b)
	if b.fallback != "" {
		t.Fatalf("this is to test the sync of groups, but: %s", b.fallback)
	}
	// The control shall not fail for folders that nobody has synced yet.
	command(t, "sync", "-f", d.dir)
	n.loaded(t, b, 500+rand.IntN(rounds(2000, 20000)))
	pause(rand.N(50 * time.Millisecond))
	before := newBook()
	before.confirmed, before.ended = b.copies()
	// Only now, after what the node has told, the copy begins.
	copied := filepath.Join(d.root, "copy.img")
	command(t, "cp", "--reflink=always", d.image, copied)
	n.kill()
	b.healthy(t)
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(filepath.Dir(d.dir), "copy")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, "mount", "-o", "loop", copied, at)
	return before, filepath.Join(at, "store")
}

// drop ends what cut has begun.
func (d *disk) drop(t *testing.T) {
	t.Helper()
	unmount(t, filepath.Join(filepath.Dir(d.dir), "copy"))
	if err := os.Remove(filepath.Join(d.root, "copy.img")); err != nil {
		t.Error(err)
	}
}

// A loss of power under load: whatever was confirmed before is there, or has its
// outcome; each outcome that was told is there, and its job does not run again.
func TestPowerLoss(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind)
			jobs, ended := 0, 0
			for round := range rounds(1, 12) {
				b, dir := d.cut(t, false)
				jobs, ended = jobs+len(b.confirmed), ended+len(b.ended)
				t.Run(fmt.Sprint(round), func(t *testing.T) { afterCut(t, dir, b) })
				d.drop(t)
			}
			t.Logf("%d rounds: %d confirmed jobs, %d of them with an outcome; none missing unless told above", rounds(1, 12), jobs, ended)
		})
	}
}

// The control: the same node, the same load and the same cut, but a confirm
// does not wait for the sync. It has to lose jobs, or the test above says nothing.
func TestPowerLossControl(t *testing.T) {
	d := newDisk(t, "xfs")
	jobs, missing := 0, 0
	for range rounds(1, 2) {
		b, dir := d.cut(t, true)
		jobs, missing = jobs+len(b.confirmed), missing+lostBy(t, dir, b)
		d.drop(t)
	}
	t.Logf("with the server's default sync %d of %d confirmed jobs are missing", missing, jobs)
	if missing == 0 {
		t.Error("nothing is lost without syncing: this way of cutting the power tests nothing")
	}
}

// lostBy counts the confirmed jobs that are not in the store.
func lostBy(t *testing.T, dir string, b *book) (missing int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(dir)})
	if err != nil {
		t.Logf("the store does not open: %v", err)
		return len(b.confirmed)
	}
	defer q.Close()
	for id := range b.confirmed {
		i, err := q.Get(ctx, id)
		if errors.Is(err, queue.ErrNotFound) || err == nil && i.Reason == queue.Vanished {
			missing++
		}
	}
	return missing
}

// afterCut opens the store in dir and compares it with the book.
func afterCut(t *testing.T, dir string, b *book) {
	t.Helper()
	events := newEventLog()
	q := openQueue(t, queue.Config{Store: embedded.At(dir), Lease: time.Second, Logger: events.logger(), Retry: queue.Retry{Nodes: 1000}})
	<-events.verified
	missing := stillThere(t, q, b)
	if n := len(events.of(queue.Missing)) + len(events.of(queue.Damaged)); n > 0 || missing > 0 {
		t.Errorf("%d of %d confirmed jobs are missing, the queue reports %d:\n%s", missing, len(b.confirmed), n, events.tail())
	}
	var mu sync.Mutex
	again := make(map[string]bool)
	handler := func(_ context.Context, task bullpen.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		again[task.ID] = true
		return task.Payload, intact(task.Payload)
	}
	e, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{"note": handler}})
	closing(t, e, err)
	stop := startWork(t, q, e, queue.WorkConfig{Queue: workQueue})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bad := 0
	for id, where := range b.confirmed {
		if where == keptQueue {
			continue
		}
		if _, err := q.Wait(ctx, id); err != nil {
			if bad++; bad < 10 {
				t.Errorf("job %s: %v", id, err)
			}
		}
	}
	stop()
	for id := range b.ended {
		if again[id] {
			t.Errorf("the outcome of job %s was durable, and it ran again", id)
		}
	}
}

// stillThere looks for each job of the book, and counts those that are missing.
func stillThere(t *testing.T, q *queue.Queue, b *book) (missing int) {
	t.Helper()
	for id, where := range b.confirmed {
		i, err := q.Get(t.Context(), id)
		switch {
		case errors.Is(err, queue.ErrNotFound), err == nil && i.Reason == queue.Vanished:
			missing++
		case err != nil:
			t.Errorf("job %s: %v", id, err)
		case b.ended[id] != "":
			// Its Ack may be lost, so that it is still in the queue. Wait knows better.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			r, err := q.Wait(ctx, id)
			cancel()
			if err != nil || intact(r.Payload) != nil {
				t.Errorf("the outcome of job %s was told, and now: %v", id, err)
			}
		case where == keptQueue && (i.State != queue.Queued || intact(i.Payload) != nil):
			t.Errorf("job %s waited and is %v now", id, i.State)
		}
	}
	return missing
}
