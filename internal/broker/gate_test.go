package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// testGate returns a running gate whose syncs are the caller's, and the groups
// that it counted.
func testGate(t *testing.T, syncs func() error) (*gate, *[][]waiter) {
	t.Helper()
	var groups [][]waiter
	g := newGate(syncs, func(w []waiter) { groups = append(groups, slices.Clone(w)) }, func() error { return nil }, newFailure())
	g.start()
	t.Cleanup(g.close)
	return g, &groups
}

func TestThoseWhoComeDuringASyncAreTheNextGroup(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	g, groups := testGate(t, func() error { began <- struct{}{}; <-end; return nil })
	var order []string
	var all sync.WaitGroup
	put := func(name string) {
		all.Add(1)
		g.confirm(waiter{engine.Entry{ID: name}, func(err error) { // the gate's goroutine is the only caller
			if err != nil {
				t.Error(err)
			}
			order = append(order, name)
			all.Done()
		}})
	}
	put("a")
	<-began
	put("b")
	put("c")
	if len(order) != 0 {
		t.Errorf("%v confirmed before the sync", order)
	}
	end <- struct{}{}
	<-began
	end <- struct{}{}
	all.Wait()
	if !slices.Equal(order, []string{"a", "b", "c"}) {
		t.Errorf("order %v", order)
	}
	g.close()
	if len(*groups) != 2 || len((*groups)[1]) != 2 {
		t.Errorf("groups %v", *groups)
	}
	if s := g.stats.get(); s.Syncs != 2 || s.Confirms != 3 || s.Last == 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestManyCallersAreAnsweredOnceEach(t *testing.T) {
	t.Parallel()
	for _, syncs := range []func() error{nil, func() error { return nil }} {
		g, _ := testGate(t, syncs)
		const callers, each = 32, 200
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for n := range each {
					c := make(chan int, 2)
					g.confirm(waiter{done: func(error) { c <- n }})
					if got := <-c; got != n {
						t.Errorf("answer %d, want %d", got, n)
					}
				}
			})
		}
		all.Wait()
		if s := g.stats.get(); s.Confirms != callers*each || (s.Syncs > 0) != (syncs != nil) {
			t.Errorf("stats %+v", s)
		}
	}
}

func TestDiskThatFailsOnceConfirmsNothingMore(t *testing.T) {
	t.Parallel()
	broken := errors.New("write back failed")
	syncs := 0
	g, groups := testGate(t, func() error {
		if syncs++; syncs == 2 {
			return broken
		}
		return nil
	})
	ask := func() error {
		c := make(chan error, 1)
		g.confirm(waiter{done: func(err error) { c <- err }})
		return <-c
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := ask(); !errors.Is(err, engine.ErrFailed) || !errors.Is(err, broken) {
			t.Errorf("confirm says %v", err)
		}
	}
	<-g.failure.failed
	g.close()
	if syncs != 2 || len(*groups) != 1 {
		t.Errorf("%d syncs and %d groups after the failure of the second sync", syncs, len(*groups))
	}
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	t.Parallel()
	g, _ := testGate(t, func() error { return nil })
	c := make(chan error, 1)
	g.confirm(waiter{done: func(err error) { c <- err }})
	g.close()
	select {
	case err := <-c:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Error("close left a waiter")
	}
	if g.confirm(waiter{}) {
		t.Error("a closed gate takes more")
	}
}

func TestStatsAreOfTheLastSyncs(t *testing.T) {
	t.Parallel()
	var s stats
	s.synced(time.Hour)
	for n := range recent {
		s.synced(time.Duration(n + 1))
	}
	got := s.get()
	want := engine.SyncStats{Syncs: recent + 1, P50: recent / 2, P99: recent*99/100 + 1, Max: recent, Last: recent}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestFailedDiskOfABroker(t *testing.T) {
	sys := grouped()
	var mu sync.Mutex
	var fail error
	works := sys.syncfs
	sys.syncfs = func(fd int) error {
		mu.Lock()
		defer mu.Unlock()
		if fail != nil {
			return fail
		}
		return works(fd)
	}
	dir := t.TempDir()
	b := open(t, Config{Dir: dir, instead: sys})
	if err := confirm(b, engine.Entry{Kind: engine.Accepted, ID: number(1)}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	fail = errors.New("input/output error")
	mu.Unlock()
	for range 2 {
		if err := confirm(b, engine.Entry{Kind: engine.Accepted, ID: number(2)}); !errors.Is(err, engine.ErrFailed) {
			t.Errorf("confirm says %v", err)
		}
	}
	<-b.Failed()
	if !errors.Is(b.Err(), fail) || !strings.Contains(b.Err().Error(), "start the program again") {
		t.Errorf("Err() = %v", b.Err())
	}
	shut(t, b)
	b = open(t, Config{Dir: dir, instead: grouped()})
	if ids, known := b.Unended(); !slices.Equal(ids, []string{number(1)}) || !known {
		t.Errorf("Unended() = %v, %v: the ledger must not name what was not confirmed", ids, known)
	}
}

func TestServerThatStopsStoringIsAFailure(t *testing.T) {
	t.Run("seen by the gate", func(t *testing.T) {
		b := open(t, Config{Dir: t.TempDir(), instead: grouped()})
		if err := b.server.ShutdownJetStream(); err != nil {
			t.Fatal(err)
		}
		_ = confirm(b, engine.Entry{}) // what was stored before may be confirmed
		<-b.Failed()
		if err := confirm(b, engine.Entry{}); !errors.Is(err, engine.ErrFailed) {
			t.Errorf("confirm says %v", err)
		}
	})
	for line, fails := range map[string]bool{
		"Filestore [S] Critical write error: no space left on device":              true,
		"JetStream consumer '$G > S > c' critical write error: input/output error": true,
		"JetStream out of resources, will be DISABLED":                             true,
		"Filesystem permission denied while writing msg, disabling JetStream: %v":  true,
		"JetStream resource limits exceeded for account":                           false,
		"JetStream failed to store a msg on stream 'S': maximum messages exceeded": false,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := newFailure()
			l := &serverLog{log: (&journal{}).logger(), failure: f}
			l.Warnf("%s", line)
			if (f.get() != nil) != fails {
				t.Errorf("failure is %v", f.get())
			}
		})
	}
}

// BenchmarkGate compares with one fdatasync, on the disk of the temporary folder.
func BenchmarkGate(b *testing.B) {
	b.Run("fdatasync", func(b *testing.B) { benchmarkDatasync(b) })
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			k, err := Open(b.Context(), Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close(b.Context())
			if k.Fallback() != "" {
				b.Skip(k.Fallback())
			}
			b.ResetTimer()
			each(b, callers, func(n int) error {
				return confirm(k, engine.Entry{Kind: engine.Accepted, ID: number(n)})
			})
			s := k.SyncStats()
			b.ReportMetric(float64(s.Confirms)/float64(s.Syncs), "confirms/sync")
		})
	}
}

// BenchmarkPublish is the whole way: publish, the server's answer, confirm.
func BenchmarkPublish(b *testing.B) {
	for _, mode := range []Sync{SyncAuto, SyncAlways} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("mode=%d/callers=%d", mode, callers), func(b *testing.B) {
				benchmarkPublish(b, mode, callers)
			})
		}
	}
}

func benchmarkPublish(b *testing.B, mode Sync, callers int) {
	b.Helper()
	k, err := Open(b.Context(), Config{Dir: b.TempDir(), Sync: mode})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close(b.Context())
	js, hangUp := benchClient(b, k)
	defer hangUp()
	payload := make([]byte, 100)
	b.ResetTimer()
	each(b, callers, func(n int) error {
		f, err := js.PublishAsync("s.x", payload)
		if err != nil {
			return err
		}
		select {
		case <-f.Ok():
			return confirm(k, engine.Entry{Kind: engine.Accepted, ID: number(n)})
		case err := <-f.Err():
			return err
		}
	})
	if s := k.SyncStats(); s.Syncs > 0 {
		b.ReportMetric(float64(s.Confirms)/float64(s.Syncs), "confirms/sync")
	}
}
