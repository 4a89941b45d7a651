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
	"syscall"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// One flipped bit after the node was killed under load, when nothing has sealed the
// files: what was synced is known all the same.
func TestDamageFlippedBitAfterKill(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	for i := range rounds(2, 30) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir, b := filepath.Join(t.TempDir(), "store"), newBook()
			n := startNode(t, nodeConfig{Dir: dir, Lease: time.Second, Enqueuers: 8, Payload: 1500}, b)
			n.ready(t, b)
			n.loaded(t, b, 300)
			n.kill()
			b.healthy(t)
			sent := make(map[string][]byte)
			for id := range b.confirmed {
				sent[id] = nil
			}
			where := flip(t, dataFiles(t, dir))
			t.Logf("%s: %v", where, settle(t, dir, sent))
		})
	}
}

// Another process has the store.
func TestDamageSecondProgram(t *testing.T) {
	t.Parallel()
	dir, b := filepath.Join(t.TempDir(), "store"), newBook()
	n := startNode(t, nodeConfig{Dir: dir, Lease: time.Second}, b)
	n.ready(t, b)
	q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir)})
	if err == nil {
		t.Fatal("two programs have one store", q.Close())
	}
	if want := fmt.Sprintf("process %d uses %s", n.cmd.Process.Pid, dir); !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not say %q: %v", want, err)
	}
}

// smallDisk is an ext4 file system of so many bytes, mounted until the test ends.
func smallDisk(t *testing.T, size int64) (dir, image string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip(err)
	}
	base := t.TempDir()
	image, dir = filepath.Join(base, "image"), filepath.Join(base, "disk")
	sparse(t, image, size)
	command(t, "mkfs.ext4", "-q", "-F", "-m", "0", image)
	if err := mount(t, image, dir); err != nil {
		t.Skipf("no loop device: %v", err)
	}
	return dir, image
}

// Nobody may write to the folder.
func TestDamageReadOnly(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("used before %t", used), func(t *testing.T) {
			disk, _ := smallDisk(t, 64<<20)
			dir := filepath.Join(disk, "store")
			if used {
				fill(t, dir, 10)
			}
			command(t, "mount", "-o", "remount,ro", disk)
			q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir)})
			if err == nil {
				t.Fatal("a store that cannot be written to was opened", q.Close())
			}
			if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mounted read-only") {
				t.Errorf("the error is not clear: %v", err)
			}
		})
	}
}

// gate runs jobs that wait until it is opened.
type gate struct {
	queue   *queue.Queue
	started chan string
	open    func() // lets all run on
	sent    []string
}

func newGate(t *testing.T, dir string, events *eventLog) *gate {
	t.Helper()
	opened := make(chan struct{})
	g := &gate{started: make(chan string, 100), open: sync.OnceFunc(func() { close(opened) })}
	g.queue = openQueue(t, queue.Config{Store: embedded.At(dir), Lease: time.Second, Logger: events.logger()})
	e, err := pool.New(pool.Config{Max: 4, Handlers: map[string]bullpen.Handler{
		"note": func(_ context.Context, task bullpen.Task) ([]byte, error) {
			select {
			case g.started <- task.ID:
			default:
			}
			<-opened
			return task.Payload[:16], nil
		},
	}})
	closing(t, e, err)
	startWork(t, g.queue, e, queue.WorkConfig{Queue: workQueue, Concurrency: 4})
	t.Cleanup(g.open)
	return g
}

// fillUp enqueues until the queue refuses, and returns why.
func (g *gate) fillUp(t *testing.T, most int) error {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range most {
		ref, err := g.queue.Enqueue(t.Context(), job.Job{Queue: workQueue, Name: "note", Payload: payload(random, 100_000)})
		if err != nil {
			return err
		}
		g.sent = append(g.sent, ref.ID)
	}
	return nil
}

// ends waits for all that was sent.
func (g *gate) ends(t *testing.T, q *queue.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, id := range g.sent {
		if _, err := q.Wait(ctx, id); err != nil {
			t.Fatalf("confirmed job %s: %v", id, err)
		}
	}
}

// The jobs fill the disk: the next is refused in clear words, those that run
// end, and when they have made room there is room.
func TestDamageFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a disk of 64 MiB: run it without -short")
	}
	t.Parallel()
	disk, _ := smallDisk(t, 64<<20)
	events := newEventLog()
	g := newGate(t, filepath.Join(disk, "store"), events)
	err := g.fillUp(t, 2000)
	if !errors.Is(err, job.ErrFull) || !strings.Contains(err.Error(), "bytes free") || !strings.Contains(err.Error(), disk) {
		t.Fatalf("the disk is full, and Enqueue says: %v", err)
	}
	if g.queue.Stats().Refused == 0 {
		t.Error("the refusal is not counted")
	}
	until(t, "the refusal is reported", func() bool { return events.said(job.Full.String()) })
	<-g.started // some run
	g.open()
	g.ends(t, g.queue)
	until(t, "there is room again", func() bool { return g.fillUp(t, 1) == nil })
	g.ends(t, g.queue)
	t.Logf("%d jobs; refused with: %v", len(g.sent), err)
}

// Somebody else fills the disk to the last byte, while jobs run and more wait.
func TestDamageDiskFilledByOthers(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	disk, _ := smallDisk(t, 64<<20)
	dir, events := filepath.Join(disk, "store"), newEventLog()
	g := newGate(t, dir, events)
	if err := g.fillUp(t, 100); err != nil {
		t.Fatal(err)
	}
	<-g.started
	ballast := filepath.Join(disk, "ballast")
	if err := try("dd", "if=/dev/zero", "of="+ballast, "bs=64k"); err == nil {
		t.Fatal("the disk does not get full")
	}
	until(t, "jobs are refused", func() bool {
		err := g.fillUp(t, 1)
		if err != nil && !errors.Is(err, job.ErrFull) && !(errors.Is(err, job.ErrStore) && errors.Is(g.queue.Err(), job.ErrStore) && strings.Contains(err.Error(), "no space left")) {
			t.Errorf("the disk is full, and Enqueue says: %v", err)
		}
		return err != nil
	})
	g.open()
	select {
	case <-g.queue.Failed():
		t.Logf("the store has failed: %v", g.queue.Err())
	case <-time.After(2 * time.Second): // nothing tells that it goes on without an end of a job
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	q := g.queue
	if q.Err() != nil {
		if err := q.Close(); err != nil {
			t.Logf("closing it: %v", err)
		}
		h := newGate(t, dir, events)
		h.open()
		q = h.queue
	}
	g.ends(t, q)
	t.Logf("%d jobs, all ended; last words: %s", len(g.sent), events.tail())
}

// The disk fails under load: nothing is confirmed any more, the node says so, and
// what it had confirmed is there when the disk is back.
func TestDamageDiskFails(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("xfs_io"); err != nil {
		t.Skipf("%v: install xfsprogs", err)
	}
	for i := range rounds(1, 10) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			disk, image := smallDisk(t, 256<<20)
			b := newBook()
			c := powerLoad()
			c.Dir = filepath.Join(disk, "store")
			n := startNode(t, c, b)
			n.ready(t, b)
			n.loaded(t, b, 200+rand.IntN(2000))
			command(t, "xfs_io", "-x", "-c", "shutdown", disk)
			until(t, "the node says that it failed", func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return len(b.faults) >= c.Enqueuers
			})
			n.kill()
			t.Logf("%d jobs were confirmed; then: %s", len(b.confirmed), b.faults[0])
			unmount(t, disk)
			command(t, "mount", "-o", "loop", image, disk)
			afterCut(t, &wreck{book: b, dir: c.Dir, after: messageFiles(t, c.Dir)})
		})
	}
}
