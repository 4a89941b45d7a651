package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// dataFiles gives the files that hold what is stored.
func dataFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "data", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	return files
}

// flip flips one random bit of one of the files that has bytes, and says where.
func flip(t *testing.T, files []string) string {
	t.Helper()
	for _, i := range rand.Perm(len(files)) {
		data, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			continue
		}
		bit := rand.IntN(8 * len(data))
		data[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(files[i], data, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("bit %d of byte %d of %d of %s", bit%8, bit/8, len(data), filepath.Base(files[i]))
	}
	t.Fatal("all files are empty")
	return ""
}

// fill enqueues so many jobs into a new store, and closes it.
func fill(t *testing.T, dir string, jobs int) map[string][]byte {
	t.Helper()
	q := openQueue(t, queue.Config{Store: embedded.At(dir)})
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	all := make([]job.Job, jobs)
	for i := range all {
		all[i] = job.Job{Queue: workQueue, Name: "note", Payload: payload(random, 1500)}
	}
	refs, err := q.EnqueueAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(map[string][]byte, jobs)
	for i, ref := range refs {
		sent[ref.ID] = all[i].Payload
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return sent
}

// settle opens a store that may be damaged and works everything off. Each job is done
// with its own payload (nil stands for one that is not known), or the queue refuses to
// open, or fails, and its error names a file of the store. It gives that error.
func settle(t *testing.T, dir string, sent map[string][]byte) error {
	t.Helper()
	events := newEventLog()
	q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir), Lease: time.Second, Logger: events.logger()})
	if err != nil {
		return named(t, dir, err)
	}
	handler := func(_ context.Context, task bullpen.Task) ([]byte, error) { return task.Payload, nil }
	e, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{"note": handler}})
	closing(t, e, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- q.Work(working, e, queue.WorkConfig{Queue: workQueue}) }() // ends with working; waited for below
	for id, want := range sent {
		r, err := q.Wait(ctx, id)
		if err == nil && (bytes.Equal(r.Payload, want) || want == nil && intact(r.Payload) == nil) {
			continue
		}
		if err == nil {
			t.Errorf("job %s ran with another payload, silently", id)
		} else if q.Err() == nil {
			t.Errorf("job %s is lost without a report: %v\n%s", id, err, events.tail())
		}
		break
	}
	failed := q.Err()
	stop()
	if err := <-worked; err != nil && failed == nil {
		t.Errorf("Work = %v", err)
	}
	if err := q.Close(); err != nil && failed == nil {
		t.Error(err)
	}
	return named(t, dir, failed)
}

// named wants an error to name a file of a store, and gives it back.
func named(t *testing.T, dir string, err error) error {
	t.Helper()
	if err != nil && !strings.Contains(err.Error(), dir) {
		t.Errorf("the error names no file: %v", err)
	}
	return err
}

// One flipped bit in the files of a closed store: the queue names it and does not open.
func TestDamageFlippedBit(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	for i := range rounds(4, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			sent := fill(t, dir, 300)
			where := flip(t, dataFiles(t, dir))
			t.Logf("%s: %v", where, settle(t, dir, sent))
		})
	}
}

// The end of a file of a closed store is cut off, by some bytes or by most: the queue
// names the file and does not open.
func TestDamageTruncatedTail(t *testing.T) {
	t.Parallel()
	for _, cut := range []int64{1, 37, 5000, 100_000} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			sent := fill(t, dir, 300)
			shortened := 0
			for _, file := range dataFiles(t, dir) {
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				if info.Size() < cut {
					continue
				}
				shortened++
				whole, err := os.ReadFile(file)
				if err == nil {
					err = os.Truncate(file, info.Size()-cut)
				}
				if err != nil {
					t.Fatal(err)
				}
				q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir)})
				if err == nil {
					t.Fatalf("%s is %d bytes shorter, and the store opens (%v)", file, cut, q.Close())
				}
				if !strings.Contains(err.Error(), file) {
					t.Errorf("%s is %d bytes shorter, and Open = %v", file, cut, err)
				}
				if err := os.WriteFile(file, whole, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if shortened == 0 {
				t.Error("no file is so long: the test has cut nothing")
			}
			if err := settle(t, dir, sent); err != nil {
				t.Errorf("with all files whole again: %v", err)
			}
		})
	}
}

// One flipped bit when all have ended: no wrong outcome is reported.
func TestDamageOutcomes(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	for i := range rounds(2, 20) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			sent := fill(t, dir, 100)
			if err := settle(t, dir, sent); err != nil {
				t.Fatal(err)
			}
			where := flip(t, dataFiles(t, dir))
			t.Logf("%s: %v", where, settle(t, dir, sent))
		})
	}
}

// A second program, or a second part of this one, cannot have the same store.
func TestDamageSecondOpener(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	q := openQueue(t, queue.Config{Store: embedded.At(dir)})
	ref, err := q.Enqueue(t.Context(), job.Job{Name: "note"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir)})
	if err == nil {
		t.Fatal("a store was opened twice", second.Close())
	}
	for _, words := range []string{"in use", dir, fmt.Sprint(os.Getpid())} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not say %q: %v", words, err)
		}
	}
	if _, err := q.Get(t.Context(), ref.ID); err != nil {
		t.Errorf("the first one suffers: %v", err)
	}
}
