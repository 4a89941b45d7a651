package process

import (
	"fmt"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// newAccount is a pool without processes; pokes are counted.
func newAccount(name string, minimum int, need int64, pokes *int) *account {
	return &account{
		name: name, min: minimum, plan: need, need: need, gives: true, declared: true, turn: int64(time.Second),
		poke: func() { *pokes++ }, room: &bullpen.RoomSignal{},
	}
}

// idleFrom shows n idle workers of a, the first of them idle since then.
func idleFrom(a *account, n int, since int64) {
	a.idle.Store(int32(n))
	a.rested.Store(since)
}

// takeN takes room for n workers, which must be there.
func takeN(t *testing.T, l *ledger, a *account, n int, now int64) {
	t.Helper()
	for range n {
		if ok, _ := l.take(a, forTask, now); !ok {
			t.Fatalf("%s gets no room; %+v", a.name, l.usage())
		}
	}
}

// wantNone fails the test if a gets room.
func wantNone(t *testing.T, l *ledger, a *account, why purpose, now int64) (again int64) {
	t.Helper()
	ok, again := l.take(a, why, now)
	if ok {
		t.Fatalf("%s gets room; %+v", a.name, l.usage())
	}
	return again
}

func TestLedgerPromisesMinAndServesInOrder(t *testing.T) {
	t.Parallel()
	var pa, pb, pc int
	a, b, c := newAccount("a", 2, 10, &pa), newAccount("b", 0, 10, &pb), newAccount("c", 0, 10, &pc)
	l := &ledger{workers: 4, accounts: []*account{a, b, c}}
	takeN(t, l, b, 2, 1)
	wantNone(t, l, c, forTask, 2) // two are kept for a
	wantNone(t, l, b, forTask, 3)
	takeN(t, l, a, 2, 4) // what is promised does not wait in the line
	l.release(b, 10, onItsOwn, 5)
	if pc != 1 || pb != 0 {
		t.Fatalf("c was poked %d times, b %d times, want 1 and 0", pc, pb)
	}
	wantNone(t, l, b, forTask, 6) // c came first
	takeN(t, l, c, 1, 7)
	l.withdraw(b)
	if len(l.waiting) != 0 {
		t.Errorf("%d pools wait", len(l.waiting))
	}
}

func TestLedgerTakesFromWhoWastesMost(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	var pokes int
	long, large, kept, mine := newAccount("long idle", 0, 10, &pokes), newAccount("large", 0, 100, &pokes),
		newAccount("promised", 1, 50, &pokes), newAccount("mine", 0, 10, &pokes)
	l := &ledger{workers: 4, accounts: []*account{long, large, kept, mine}}
	takeN(t, l, long, 2, 1)
	takeN(t, l, large, 1, 1)
	takeN(t, l, kept, 1, 1)
	idleFrom(long, 2, 100*ms)
	idleFrom(large, 1, 200*ms)
	idleFrom(kept, 1, 1)
	wantNone(t, l, mine, forSpare, 300*ms)
	if large.asked+long.asked+kept.asked != 0 || l.short.Load() {
		t.Fatal("somebody is to leave for a spare worker")
	}
	wantNone(t, l, mine, forTask, 300*ms)
	if large.asked != 1 || large.giving != 1 || long.asked != 0 || pokes != 1 {
		t.Fatalf("large is asked for %d, the long idle for %d", large.asked, long.asked)
	}
	idleFrom(large, 0, 0)
	l.refuse(large, 1, 0, 301*ms) // it is busy again
	if large.giving != 0 || long.asked != 1 || l.short.Load() {
		t.Fatalf("large gives %d, the long idle %d", large.giving, long.asked)
	}
	l.gave(long, wasAsked)
	l.release(long, 10, wasAsked, 302*ms)
	takeN(t, l, mine, 1, 303*ms)
	if l.reclaimed != 1 || long.giving != 0 {
		t.Errorf("%d reclaimed, %d on their way", l.reclaimed, long.giving)
	}
}

func TestLedgerPressesBusyWorkersWhenATurnIsOver(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	var pokes int
	greedy, small, patient := newAccount("greedy", 0, 10, &pokes), newAccount("small", 0, 10, &pokes), newAccount("patient", 0, 10, &pokes)
	l := &ledger{workers: 4, accounts: []*account{greedy, small, patient}}
	takeN(t, l, greedy, 3, 1)
	takeN(t, l, small, 1, 1)
	again := wantNone(t, l, patient, forTask, 5)
	if again != 5+second || !l.short.Load() || greedy.hurried != 0 {
		t.Fatalf("again at %d, short %v, greedy hurried by %d", again, l.short.Load(), greedy.hurried)
	}
	if next := wantNone(t, l, patient, forTask, again); next != again+second || greedy.hurried != 1 || small.hurried != 0 {
		t.Fatalf("next at %d, greedy hurried by %d, small by %d", next, greedy.hurried, small.hurried)
	}
	wantNone(t, l, patient, forTask, again+1)
	if greedy.hurried != 1 {
		t.Fatalf("greedy is hurried %d times within one turn", greedy.hurried)
	}
	l.gave(greedy, wasPressed)
	l.release(greedy, 10, wasPressed, again+2)
	takeN(t, l, patient, 1, again+3)
	// greedy has two, the others one each: nobody gains by going on.
	wantNone(t, l, patient, forTask, again+4)
	wantNone(t, l, patient, forTask, again+4+2*second)
	if greedy.hurried+small.hurried != 0 {
		t.Error("a pool has to give to one that would have more then")
	}
}

func TestLedgerPressesAsManyAsAreMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workers int
		memory  int64
		want    int
	}{{4, 0, 1}, {4, 1000, 1}, {0, 40, 3}, {4, 40, 3}, {0, 60, 1}} {
		var pokes int
		greedy, large := newAccount("greedy", 0, 10, &pokes), newAccount("large", 0, 30, &pokes)
		l := &ledger{workers: c.workers, memory: c.memory, accounts: []*account{greedy, large}}
		takeN(t, l, greedy, 4, 1)
		again := wantNone(t, l, large, forTask, 5)
		wantNone(t, l, large, forTask, again)
		if greedy.hurried != c.want {
			t.Errorf("%d workers, %d bytes: %d workers have to leave, want %d", c.workers, c.memory, greedy.hurried, c.want)
		}
	}
}

func TestLedgerBoundsMemoryAndLetsNobodyStarve(t *testing.T) {
	t.Parallel()
	var pokes int
	a, b := newAccount("a", 1, 40, &pokes), newAccount("b", 0, 50, &pokes)
	l := &ledger{memory: 100, accounts: []*account{a, b}}
	takeN(t, l, a, 1, 1)
	takeN(t, l, b, 1, 2)
	wantNone(t, l, a, forTask, 3)
	l.withdraw(a)
	l.weigh(a, 50, 0, 4) // it has grown to 90
	idleFrom(b, 1, 1)
	l.weigh(a, 1, 0, 5)
	if b.asked != 1 {
		t.Error("memory is above its bound, and an idle worker is not asked to leave")
	}
	l.gave(b, wasAsked)
	l.release(b, 50, wasAsked, 6)
	idleFrom(b, 0, 0)
	// a keeps its one worker, so nobody could make room for b.
	takeN(t, l, b, 1, 7)
	wantNone(t, l, b, forTask, 8)
}

func TestLedgerBoundsTheRateOfStarts(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	var pokes int
	a, b := newAccount("a", 0, 10, &pokes), newAccount("b", 0, 10, &pokes)
	l := &ledger{starts: tokens{rate: 2, burst: 4, left: 4}, accounts: []*account{a, b}}
	takeN(t, l, a, 4, 0)
	if again := wantNone(t, l, a, forTask, 0); again != second/2 {
		t.Fatalf("again at %d, want %d", again, second/2)
	}
	wantNone(t, l, b, forTask, second/2) // a waits already
	takeN(t, l, a, 1, second/2)
	if pokes == 0 {
		t.Error("b is first now, and is not woken")
	}
	if again := wantNone(t, l, b, forTask, second/2); again != second {
		t.Errorf("again at %d, want %d", again, second)
	}
	takeN(t, l, b, 1, second)
	if ok, again := l.grab(a, second); ok || again != second+second/2 {
		t.Errorf("grab gives %v, again at %d", ok, again)
	}
}

// What a start and an end cost the budget, with so many pools.
func BenchmarkBudget(b *testing.B) {
	for _, pools := range []int{1, 20, 300} {
		b.Run(fmt.Sprint(pools), func(b *testing.B) {
			budget, err := NewBudget(BudgetConfig{Workers: pools, Memory: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			var pokes int
			all := make([]*account, pools)
			for i := range all {
				all[i] = newAccount("a", 0, 10, &pokes)
				if err := budget.join(all[i]); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if ok, _ := budget.take(all[0], forTask, 0); !ok {
					b.Fatal("no room")
				}
				budget.release(all[0], 10, onItsOwn)
			}
		})
	}
}
