package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/bench/internal/store"
)

// pebbleStore is the system with which runs of -stores compare.
const pebbleStore = "pebble"

// stores are embedded stores with nothing but a group commit in front of them: what a
// job queue on them cannot beat. All but Pebble take part in runs of -stores only.
func stores() (all []system) {
	for _, k := range store.Kinds() {
		all = append(all, system{id: k.ID, kind: floor, storesOnly: k.ID != pebbleStore, hoard: openBareHoard(k.Open), durable: k.Synced,
			skips: []string{idle}, title: "bare " + k.Title + ", group commit", open: openStore(k, true)})
		if k.ID == pebbleStore {
			all = append(all, system{id: "pebble-own", kind: floor, storesOnly: true, durable: "log, shared fdatasync",
				skips: []string{idle}, title: "the same, each caller commits for itself", open: openStore(k, false)})
		}
	}
	return all
}

// bareStore is a store without a job queue around it.
type bareStore struct {
	store store.Store
	group *store.Group // nil where each caller commits for itself
	seq   atomic.Uint64
	// beside is how many jobs wait all the time; zero where there is no index.
	beside int
	// put and ended count what has been confirmed.
	put, ended atomic.Int64
}

func openStore(k store.Kind, grouped bool) func(context.Context, site) (contender, error) {
	return func(_ context.Context, s site) (contender, error) {
		opened, err := k.Open(s.Folder)
		if err != nil {
			return nil, err
		}
		b := &bareStore{store: opened, beside: s.Beside}
		for n := 0; n < s.Beside; n += bulk {
			if err := b.fill(min(bulk, s.Beside-n)); err != nil {
				return nil, errors.Join(err, opened.Close())
			}
		}
		if grouped {
			b.group = store.NewGroup(opened)
		}
		return b, nil
	}
}

// fill stores n of the jobs that wait.
func (b *bareStore) fill(n int) error {
	changes := make([]store.Change, n)
	for i := range changes {
		seq := b.seq.Add(1)
		changes[i] = store.Put(seq, store.Payload(seq, payloadSize), b.subject(seq))
	}
	return b.store.Commit(changes)
}

// subject is what the index has of a job; empty without an index.
func (b *bareStore) subject(seq uint64) string {
	if b.beside == 0 {
		return ""
	}
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, seq))
	return "key." + queueName + "." + hex.EncodeToString(h[:16])
}

func (b *bareStore) commit(c store.Change) error {
	if b.group == nil {
		return b.store.Commit([]store.Change{c})
	}
	return b.group.Commit(c)
}

func (b *bareStore) enqueue(_ context.Context, payload []byte) error {
	_, err := b.putJob(payload)
	return err
}

func (b *bareStore) putJob(payload []byte) (seq uint64, err error) {
	seq = b.seq.Add(1)
	if err = b.commit(store.Put(seq, payload, b.subject(seq))); err == nil {
		b.put.Add(1)
	}
	return seq, err
}

func (b *bareStore) finish(_ context.Context, payload []byte) error {
	seq, err := b.putJob(payload)
	if err != nil {
		return err
	}
	if err := b.commit(store.End(seq, b.subject(seq))); err != nil {
		return err
	}
	b.ended.Add(1)
	return nil
}

// figures gives how many changes a commit had.
func (b *bareStore) figures() metrics {
	if b.group == nil {
		return nil
	}
	return metrics{"per_commit": b.group.PerCommit()}
}

// close looks whether all that was confirmed is there, and nothing else.
func (b *bareStore) close() error {
	if b.group != nil {
		b.group.Close()
	}
	got, err := b.store.Count()
	want := store.Counts{Jobs: b.beside + int(b.put.Load()-b.ended.Load()), Outcomes: int(b.ended.Load())}
	if b.beside > 0 {
		want.Subjects = want.Jobs
	}
	if err == nil && got != want {
		err = fmt.Errorf("the store has %+v, and has confirmed %+v", got, want)
	}
	return errors.Join(err, b.store.Close())
}

// bareHoard keeps waiting jobs in a bare store, with an index of their subjects.
type bareHoard struct {
	store store.Store
	next  uint64
}

func openBareHoard(open func(string) (store.Store, error)) func(context.Context, site) (hoard, error) {
	return func(_ context.Context, s site) (hoard, error) {
		opened, err := open(s.Folder)
		if err != nil {
			return nil, err
		}
		// A process goes on behind the jobs of the one before it.
		return &bareHoard{store: opened, next: uint64(time.Now().UnixNano())}, nil
	}
}

func (h *bareHoard) put(_ context.Context, n int) error {
	changes := make([]store.Change, 0, bulk)
	for i := range n {
		h.next++
		changes = append(changes, store.Put(h.next, store.Payload(h.next, payloadSize), "job."+queueName+".5."+ulid.Make().String()))
		if len(changes) < bulk && i < n-1 {
			continue
		}
		if err := h.store.Commit(changes); err != nil {
			return err
		}
		changes = changes[:0]
	}
	return nil
}

func (h *bareHoard) first(context.Context) (time.Time, error) {
	_, err := h.store.First()
	return time.Now(), err
}

// handed is zero: what first has read stays.
func (h *bareHoard) handed() int { return 0 }

func (h *bareHoard) check(_ context.Context, least int) error {
	got, err := h.store.Count()
	if err == nil && (got.Jobs < least || got.Subjects != got.Jobs || got.Outcomes != 0) {
		err = fmt.Errorf("the store has %+v, and has confirmed %d jobs with subjects", got, least)
	}
	return err
}

func (h *bareHoard) close() error { return h.store.Close() }
