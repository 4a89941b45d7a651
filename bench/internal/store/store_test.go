package store

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

func TestStores(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		t.Run(k.ID, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := k.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if record, err := s.First(); !errors.Is(err, errEmpty) {
				t.Errorf("an empty store gives %q, %v", record, err)
			}
			subject := func(n uint64) string { return fmt.Sprintf("job.bench.5.%026d", n) }
			var all []Change
			for n := range uint64(300) { // of more than one byte of the key
				all = append(all, Put(n+1, Payload(n, 100), subject(n+1)))
			}
			slices.Reverse(all)
			ends := []Change{End(1, subject(1)), End(2, subject(2)), Put(301, Payload(301, 100), "")}
			for _, changes := range [][]Change{all, ends} {
				if err := s.Commit(changes); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if got, err := s.Count(); err != nil || got != (Counts{299, 298, 2}) {
					t.Errorf("it has %v, %v", got, err)
				}
				want := Put(3, Payload(2, 100), "").Job
				if got, err := s.First(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the first job is %q, %v; want %q", got, err, want)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = k.Open(dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	c := Put(7, []byte("payload"), "subject")
	if len(c.Job) != recordSize+len("payload") || !bytes.HasSuffix(c.Job, []byte("payload")) || c.Outcome != nil || c.Seq != 7 || c.Subject != "subject" {
		t.Errorf("a job put is %+v", c)
	}
	if end := End(7, ""); len(end.Outcome) != recordSize || end.Job != nil || end.Seq != 7 {
		t.Errorf("the end of a job is %+v", end)
	}
	if a, b := Payload(1, 100), Payload(2, 100); len(a) != 100 || bytes.Equal(a, b) {
		t.Errorf("payloads %q and %q", a, b)
	}
	for n := range uint64(100_000) {
		if got := len(Payload(n, 100)); got != 100 {
			t.Fatalf("payload %d has %d bytes", n, got)
		}
	}
}

// memory is a store in memory, which fails on demand.
type memory struct {
	commits [][]uint64
	first   chan struct{} // closed by the first commit
	hold    chan struct{} // each commit waits until it is closed
	fail    uint64        // a commit with this change fails
}

func (m *memory) Commit(changes []Change) error {
	var seqs []uint64
	for _, c := range changes {
		seqs = append(seqs, c.Seq)
	}
	m.commits = append(m.commits, seqs)
	if len(m.commits) == 1 {
		close(m.first)
	}
	<-m.hold
	if slices.Contains(seqs, m.fail) {
		return errFault
	}
	return nil
}

func (m *memory) First() ([]byte, error) { return nil, errEmpty }

func (m *memory) Count() (Counts, error) { return Counts{}, nil }

func (m *memory) Close() error { return nil }

var errFault = errors.New("a fault")

func TestGroup(t *testing.T) {
	t.Parallel()
	const callers = 64
	m := &memory{first: make(chan struct{}), hold: make(chan struct{}), fail: callers}
	g := NewGroup(m)
	errs := make([]error, callers+1)
	var all sync.WaitGroup
	for n := range uint64(callers + 1) {
		all.Go(func() { errs[n] = g.Commit(Change{Seq: n}) }) // waited for below
		if n == 0 {
			<-m.first
		}
	}
	for waiting := 0; waiting < callers; { // they have to wait for the commit that is held
		g.mu.Lock()
		waiting = len(g.waiting)
		g.mu.Unlock()
		runtime.Gosched()
	}
	close(m.hold)
	all.Wait()
	if len(m.commits) != 2 || len(m.commits[0]) != 1 || len(m.commits[1]) != callers {
		t.Errorf("the commits are %v", m.commits)
	}
	if got := g.PerCommit(); got != float64(callers+1)/2 {
		t.Errorf("%v changes a commit", got)
	}
	for n, err := range errs {
		if failed := n > 0; errors.Is(err, errFault) != failed {
			t.Errorf("caller %d got %v", n, err)
		}
	}
	g.Close()
	if err := g.Commit(Change{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed group tells %v", err)
	}
}

func TestGroupCloses(t *testing.T) {
	t.Parallel()
	m := &memory{first: make(chan struct{}), hold: make(chan struct{}), fail: 100}
	close(m.hold)
	g := NewGroup(m)
	var all sync.WaitGroup
	for n := range uint64(100) {
		all.Go(func() { // waited for below
			if err := g.Commit(Change{Seq: n}); err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	g.Close()
	all.Wait() // nobody is forgotten
}
