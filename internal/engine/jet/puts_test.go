package jet

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// tableModel is what the table must hold.
type tableModel struct {
	t     *testing.T
	r     *rand.Rand
	table *puts
	tick  int64
	begun int
	ends  map[int]int    // how often each put has ended
	open  map[uint64]int // the puts that have not, by their tokens
	stale []uint64       // tokens of those that have
}

const modelPatience = 4

func (m *tableModel) end(p pending) {
	p.done(0, nil)
	m.table.ended()
}

func (m *tableModel) add() {
	n := m.begun
	m.begun++
	p := pending{put: engine.Put{Stream: engine.Stream(m.r.IntN(4)), New: m.r.IntN(2) == 0, Data: []byte{1}}, began: m.tick, sent: m.tick}
	p.done = func(uint64, error) { m.ends[n]++ }
	token, err := m.table.add(&p)
	if err != nil {
		m.t.Fatalf("add = %v", err)
	}
	if tokenStream(token) != p.put.Stream {
		m.t.Fatalf("the token of %s tells of %s", p.put.Stream, tokenStream(token))
	}
	if _, twice := m.open[token]; twice {
		m.t.Fatalf("the token %x is given to two puts", token)
	}
	m.open[token] = n
	m.table.sent(token)
}

func (m *tableModel) answer() {
	for token := range m.open {
		if m.r.IntN(4) == 0 && m.table.later(token, m.tick+1, modelPatience) {
			return
		}
		if p, ok := m.table.take(token); ok {
			m.end(p)
		}
		delete(m.open, token)
		m.stale = append(m.stale, token)
		return
	}
}

func (m *tableModel) answerLate() {
	if len(m.stale) == 0 {
		return
	}
	if _, ok := m.table.take(m.stale[m.r.IntN(len(m.stale))]); ok {
		m.t.Fatal("the token of a put that has ended was taken")
	}
}

func (m *tableModel) sweep() {
	m.tick++
	lost := m.r.IntN(4) == 0
	retry, over := m.table.sweep(m.tick, modelPatience, lost)
	if lost && len(retry) > 0 {
		m.t.Fatal("a put is tried again while there is no connection")
	}
	for _, a := range retry {
		if _, ok := m.open[a.token]; !ok {
			m.t.Fatal("a put is tried again that has ended")
		}
	}
	for _, p := range over {
		m.end(p)
	}
}

// TestPutsUnderDisconnections does to the table what answers, ticks and lost
// connections do, and checks that each put ends once.
func TestPutsUnderDisconnections(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &tableModel{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), table: newPuts(),
		ends: map[int]int{}, open: map[uint64]int{},
	}
	steps := []func(){m.add, m.add, m.add, m.answer, m.answerLate, m.sweep}
	for range 20_000 {
		steps[m.r.IntN(len(steps))]()
	}
	for _, p := range m.table.takeAll() {
		m.end(p)
	}
	<-m.table.close()
	if _, err := m.table.add(&pending{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("add after close = %v, want ErrClosed", err)
	}
	for n := range m.begun {
		if times := m.ends[n]; times != 1 {
			t.Errorf("put %d has ended %d times, want once", n, times)
		}
	}
}

// TestPutsShrink has a burst of puts: when it is over the table is small again, also
// while a late one is under way, and no token of the burst means another put.
func TestPutsShrink(t *testing.T) {
	t.Parallel()
	const burst = 10_000
	table := newPuts()
	add := func(n int) (tokens []uint64) {
		for range n {
			token, err := table.add(&pending{done: func(uint64, error) {}})
			if err != nil {
				t.Fatal(err)
			}
			table.sent(token)
			tokens = append(tokens, token)
		}
		return tokens
	}
	end := func(tokens []uint64) {
		for _, token := range tokens {
			if _, ok := table.take(token); !ok {
				t.Fatalf("the put %x is not there", token)
			}
			table.ended()
		}
	}
	first := add(burst)
	late := first[burst-1:]
	end(first[:burst-1])
	table.sweep(1, 100, false) // the late one has the last place
	next := add(leastEntries / 4)
	end(late)
	table.sweep(2, 100, false)
	if n, free := cap(table.entries), cap(table.free); n > leastEntries || free > leastEntries {
		t.Errorf("after a burst of %d the table has %d places, %d of them for empty ones", burst, n, free)
	}
	end(next)
	again := add(burst)
	for _, token := range first {
		if _, ok := table.take(token); ok {
			t.Fatalf("the token %x of a put that has ended is that of another one", token)
		}
	}
	end(again)
	<-table.close()
}

func TestLostPuts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		put   engine.Put
		again bool
	}{
		{"plain", engine.Put{}, false},
		{"new", engine.Put{New: true}, true},
		{"after", engine.Put{After: 3}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := newPuts()
			token, err := table.add(&pending{put: c.put})
			if err != nil {
				t.Fatal(err)
			}
			if retry, over := table.sweep(1, 4, true); len(retry)+len(over) > 0 {
				t.Fatalf("sweep while it is being sent = %v, %v, want it left alone", retry, over)
			}
			table.sent(token)
			_, over := table.sweep(1, 4, true)
			if gone := len(over) == 1; gone == c.again {
				t.Fatalf("sweep on a lost connection = %v, want it given up: %v", over, !c.again)
			}
			if !c.again {
				return
			}
			if retry, over := table.sweep(2, 4, true); len(retry)+len(over) > 0 {
				t.Fatalf("sweep without a connection = %v, %v, want it to wait", retry, over)
			}
			if retry, _ := table.sweep(3, 4, false); len(retry) != 1 || retry[0].token != token {
				t.Fatalf("sweep on a new connection = %v, want it sent again", retry)
			}
			if _, over := table.sweep(9, 4, false); len(over) != 1 || !over[0].lost {
				t.Fatalf("sweep after its time = %v, want it given up", over)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	r := room{bound: 100}
	for range 10 {
		if err := r.enter(10); err != nil {
			t.Fatalf("enter = %v, want room", err)
		}
	}
	if err := r.enter(1); !errors.Is(err, engine.ErrFull) {
		t.Fatalf("enter over the bound = %v, want ErrFull", err)
	}
	r.answered(10, false) // was not stored
	if err := r.enter(10); err != nil {
		t.Fatalf("enter after one was not stored = %v, want room", err)
	}
	r.freed(10)
	if err := r.enter(10); err != nil {
		t.Fatalf("enter after an acknowledgement = %v, want room", err)
	}
	if !r.due(10) || r.due(11) {
		t.Fatal("due does not say once that the server is to be asked")
	}
	// Of 110 in all, none is answered: the server may have all of them or none.
	r.looked(0, r.look())
	if err := r.enter(1); !errors.Is(err, engine.ErrFull) {
		t.Errorf("enter while all are on their way = %v, want ErrFull", err)
	}
	for range 11 {
		r.answered(10, true)
	}
	if !r.due(20) {
		t.Fatal("due says that the server is not to be asked, although something was refused")
	}
	r.looked(90, r.look())
	if err := r.enter(10); err != nil {
		t.Errorf("enter at 90 of 100 = %v, want room", err)
	}
	if err := r.enter(1); !errors.Is(err, engine.ErrFull) {
		t.Errorf("enter at 100 of 100 = %v, want ErrFull", err)
	}
}
