package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// blocks gives the files that hold the messages of a stream, in their order.
func blocks(t *testing.T, dir, stream string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "BP_main_"+stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no block files of %s in %s: %v", stream, dir, err)
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
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
	all := make([]queue.Job, jobs)
	for i := range all {
		all[i] = queue.Job{Queue: workQueue, Name: "note", Payload: payload(random, 1500)}
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

// settle opens a damaged store, works everything off, and finds each job either
// done with its own payload (nil stands for one that is not known), or lost and
// reported by its id. It returns how many are lost.
func settle(t *testing.T, dir string, sent map[string][]byte) (lost int) {
	t.Helper()
	events := newEventLog()
	q := openQueue(t, queue.Config{Store: embedded.At(dir), Lease: time.Second, Logger: events.logger()})
	handler := func(_ context.Context, task bullpen.Task) ([]byte, error) { return task.Payload, nil }
	e, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{"note": handler}})
	closing(t, e, err)
	stop := startWork(t, q, e, queue.WorkConfig{Queue: workQueue})
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	select {
	case <-events.verified:
	case <-ctx.Done():
		t.Errorf("the queue has not read what is stored:\n%s", events.tail())
	}
	missing, damaged, silent := events.of(queue.Missing), events.of(queue.Damaged), 0
	for id, want := range sent {
		r, err := q.Wait(ctx, id)
		var end *queue.EndError
		switch {
		case err == nil && (bytes.Equal(r.Payload, want) || want == nil && intact(r.Payload) == nil):
		case errors.As(err, &end) && end.Outcome == bullpen.Lost && (end.Reason == queue.Vanished && missing[id] || end.Reason == queue.Corrupt && damaged[id]):
			lost++
		case err == nil:
			t.Errorf("job %s ran with another payload, silently", id)
		default:
			if silent++; silent <= 3 {
				t.Errorf("job %s is lost without a report: %v", id, err)
			}
		}
	}
	stop()
	if silent > 0 {
		t.Errorf("%d of %d jobs are lost without a report; %d missing and %d damaged are told:\n%s", silent, len(sent), len(missing), len(damaged), events.tail())
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	return lost
}

// One flipped bit in the files of the jobs, while the store is closed.
func TestDamageFlippedBit(t *testing.T) {
	t.Parallel()
	for i := range rounds(4, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			sent := fill(t, dir, 300)
			where := flip(t, blocks(t, dir, "JOBS"))
			lost := settle(t, dir, sent)
			t.Logf("%s: %d of %d jobs lost, all of them reported", where, lost, len(sent))
		})
	}
}

// The end of the jobs is cut off, by some bytes or by most.
func TestDamageTruncatedTail(t *testing.T) {
	t.Parallel()
	for _, cut := range []int64{1, 37, 5000, 100_000} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			sent := fill(t, dir, 300)
			files := blocks(t, dir, "JOBS")
			last := files[len(files)-1]
			info, err := os.Stat(last)
			if err == nil {
				err = os.Truncate(last, info.Size()-cut)
			}
			if err != nil {
				t.Fatal(err)
			}
			lost := settle(t, dir, sent)
			t.Logf("%d of %d bytes cut off: %d of %d jobs lost, all of them reported", cut, info.Size(), lost, len(sent))
			if lost == 0 {
				t.Error("no job is lost, though bytes are: the test has cut at the wrong place")
			}
		})
	}
}

// One flipped bit in the outcomes: a job that has ended may run again or its
// result be told damaged, but no other result comes in its place.
func TestDamageOutcomes(t *testing.T) {
	t.Parallel()
	for i := range rounds(2, 20) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			sent := fill(t, dir, 100)
			settle(t, dir, sent)
			where := flip(t, blocks(t, dir, "OUT"))
			gone := damagedOutcomes(t, dir, sent)
			t.Logf("%s: %d of %d outcomes are gone", where, gone, len(sent))
		})
	}
}

func damagedOutcomes(t *testing.T, dir string, sent map[string][]byte) (gone int) {
	t.Helper()
	q := openQueue(t, queue.Config{Store: embedded.At(dir)})
	for id, want := range sent {
		i, err := q.Get(t.Context(), id)
		switch {
		case err != nil:
			gone++ // it says so
		case i.Outcome == bullpen.OK && !bytes.Equal(i.Result, want):
			t.Errorf("job %s has another result", id)
		}
	}
	return gone
}

// A second program, or a second part of this one, cannot have the same store.
func TestDamageSecondOpener(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	q := openQueue(t, queue.Config{Store: embedded.At(dir)})
	ref, err := q.Enqueue(t.Context(), queue.Job{Name: "note"})
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
