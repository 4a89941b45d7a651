package feed_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/feed"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// all reads a feed to its end.
func all(f *feed.Feed[int]) (events []int) {
	for e := range f.C {
		events = append(events, e)
	}
	return events
}

func TestFeeds(t *testing.T) {
	t.Parallel()
	var s feed.Source[int]
	s.Send(1)
	narrow, wide, closed, long := s.Feed(2), s.Feed(0), s.Feed(5), s.Feed(1, 7, 8, 9)
	for e := range 3 {
		s.Send(10 + e)
	}
	closed.Close()
	closed.Close()
	s.Send(13)
	s.Close()
	s.Close()
	s.Send(14)
	wide.Close()
	late := s.Feed(1, 7)
	for _, c := range []struct {
		name    string
		feed    *feed.Feed[int]
		want    []int
		dropped uint64
	}{
		{"narrow", narrow, []int{10, 11}, 2},
		{"wide", wide, []int{10, 11, 12, 13}, 0},
		{"closed", closed, []int{10, 11, 12}, 0},
		{"with a past", long, []int{7, 8, 9, 10}, 3},
		{"late", late, []int{7}, 0},
		{"late without a past", s.Feed(0), nil, 0},
	} {
		if got := all(c.feed); !slices.Equal(got, c.want) || c.feed.Dropped() != c.dropped {
			t.Errorf("%s: %v and %d dropped, want %v and %d", c.name, got, c.feed.Dropped(), c.want, c.dropped)
		}
	}
	late.Close()
}

func TestHeard(t *testing.T) {
	t.Parallel()
	var s feed.Source[int]
	for _, end := range []func(f *feed.Feed[int]){(*feed.Feed[int]).Close, func(*feed.Feed[int]) { s.Close() }} {
		if s.Heard() {
			t.Error("a source without feeds is heard")
		}
		f := s.Feed(0)
		if !s.Heard() {
			t.Error("a source with a feed is not heard")
		}
		end(f)
	}
	s.Feed(0).Close()
	if s.Heard() {
		t.Error("a closed source is heard")
	}
}

// TestAllAtOnce sends, opens and closes feeds, and closes the source, all at the same time.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	for range 50 {
		var s feed.Source[int]
		log := s.Log(func(int) {})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for e := range 100 {
					s.Send(e)
				}
			})
			wg.Go(func() {
				for range 20 {
					f := s.Feed(1)
					select {
					case <-f.C:
					default:
					}
					f.Close()
				}
			})
		}
		wg.Go(s.Close)
		wg.Wait()
		log.Wait()
		if got := all(s.Feed(1)); got != nil {
			t.Fatalf("a feed of a closed source has %v", got)
		}
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var s feed.Source[int]
	var written []int
	log := s.Log(func(e int) {
		if e%2 == 1 {
			panic("no")
		}
		written = append(written, e)
	})
	for e := range 10 {
		s.Send(e)
	}
	s.Close()
	log.Wait() // when it returns, all is written
	log.Wait()
	if want := []int{0, 2, 4, 6, 8}; !slices.Equal(written, want) || log.Lost() != 5 {
		t.Errorf("written %v and lost %d, want %v and 5", written, log.Lost(), want)
	}
	var none *feed.Log[int]
	none.Wait()
	if none.Lost() != 0 {
		t.Error("no log has lost events")
	}
}

// TestLogThatHangs wants events to be counted that do not fit, and all calls of Wait to
// give up LogPatience after the first.
func TestLogThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s feed.Source[int]
		free := make(chan struct{})
		written := 0
		log := s.Log(func(int) {
			<-free
			written++
		})
		s.Send(0)
		synctest.Wait() // the log has it
		for range feed.LogDepth + 500 {
			s.Send(1)
		}
		if log.Lost() != 500 {
			t.Errorf("%d events are lost, want those beyond %d", log.Lost(), feed.LogDepth)
		}
		start := time.Now()
		s.Close()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				<-time.After(time.Duration(i) * time.Second / 4)
				log.Wait()
			})
		}
		wg.Wait()
		log.Wait()
		if took := time.Since(start); took != feed.LogPatience {
			t.Errorf("the waiting took %v, want %v", took, feed.LogPatience)
		}
		close(free)
		synctest.Wait()
		if want := 1 + feed.LogDepth; written != want {
			t.Errorf("%d events are written after all, want %d", written, want)
		}
	})
}
