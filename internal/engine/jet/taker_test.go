package jet

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// account counts what a taker was asked for and what became of it.
type account struct {
	mu              sync.Mutex
	asked, returned int
	came            map[uint64]int // how often each sequence number came
	news            chan struct{}
}

func (a *account) changed() {
	select {
	case a.news <- struct{}{}:
	default: // It is known already.
	}
}

func (a *account) deliver(d engine.Delivery) {
	d.Ack()
	a.mu.Lock()
	a.came[d.Seq]++
	a.mu.Unlock()
	a.changed()
}

func (a *account) back(n int) {
	a.mu.Lock()
	a.returned += n
	a.mu.Unlock()
	a.changed()
}

// counts returns how many deliveries came, of how many messages, and how many
// requests are open.
func (a *account) counts() (came, messages, open int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.came {
		came += n
	}
	return came, len(a.came), a.asked - a.returned - came
}

func (a *account) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-a.news:
		case <-patience:
			came, messages, open := a.counts()
			t.Fatalf("%s: %d deliveries of %d messages, %d open", what, came, messages, open)
		}
	}
}

// TestRecall takes waiting requests back again and again while jobs come: each
// of what was asked for is delivered or returned, each job comes once, and none
// has to wait for its lease because it was on its way.
func TestRecall(t *testing.T) {
	e := bare(t)
	const rounds, each = 250, 2
	a := &account{came: map[uint64]int{}, news: make(chan struct{}, 1)}
	taker, err := e.Take(mail, a.deliver, a.back)
	if err != nil {
		t.Fatal(err)
	}
	request := func(n int) {
		a.mu.Lock()
		a.asked += n
		a.mu.Unlock()
		taker.Request(n, true)
	}
	stored := make(chan error, each)
	for round := range rounds {
		request(2 * each)
		for i := range each {
			subject := engine.JobSubject(mail, jobID(uint64(round*each+i)))
			e.Put(engine.Put{Stream: engine.Jobs, Subject: subject}, func(_ uint64, err error) { stored <- err })
		}
		for range each {
			if err := <-stored; err != nil {
				t.Fatal(err)
			}
		}
		taker.Recall()
		a.until(t, "what was taken back is returned", func() bool { _, _, open := a.counts(); return open == 0 })
	}
	request(rounds * each)
	a.until(t, "all jobs have come", func() bool { _, messages, _ := a.counts(); return messages == rounds*each })
	taker.Stop()
	if came, messages, open := a.counts(); came != messages || open != 0 {
		t.Errorf("%d deliveries of %d messages, %d requests open, want each once and none open", came, messages, open)
	}
}

// TestRecallIsSoonOver takes requests back while a delivery is at work and another
// behind it: what is not delivered is returned when these are through, and not when
// the client library next looks, ten times a second.
func TestRecallIsSoonOver(t *testing.T) {
	e := bare(t)
	a := &account{came: map[uint64]int{}, news: make(chan struct{}, 1)}
	gate := make(chan struct{})
	taken, err := e.Take(mail, func(d engine.Delivery) { <-gate; a.deliver(d) }, a.back)
	if err != nil {
		t.Fatal(err)
	}
	taker, stored := taken.(*taker), make(chan error, 2) //nolint:forcetypeassert // it is
	var took [10]time.Duration
	for round := range took {
		a.mu.Lock()
		a.asked += 4
		a.mu.Unlock()
		taker.Request(4, true)
		for i := range 2 {
			subject := engine.JobSubject(mail, jobID(uint64(2*round+i)))
			e.Put(engine.Put{Stream: engine.Jobs, Subject: subject}, func(_ uint64, err error) { stored <- err })
		}
		for range 2 {
			if err := <-stored; err != nil {
				t.Fatal(err)
			}
		}
		feed := taker.feeds[slow]
		for came := 0; came < 2; { // one is at work, and one behind it
			if err := e.conn.Flush(); err != nil {
				t.Fatal(err)
			}
			if came, _, err = feed.sub.Pending(); err != nil {
				t.Fatal(err)
			}
		}
		taker.Recall()
		<-time.After(20 * time.Millisecond) // until the library has looked, which it tells nobody
		began := time.Now()
		gate <- struct{}{}
		gate <- struct{}{}
		a.until(t, "what was taken back is returned", func() bool { _, _, open := a.counts(); return open == 0 })
		took[round] = time.Since(began)
	}
	slices.Sort(took[:])
	if took[len(took)/2] > 40*time.Millisecond {
		t.Errorf("what was taken back was returned after %v, want it soon", took)
	}
	taker.Stop()
}
