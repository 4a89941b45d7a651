package process

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulation runs pools without processes on one ledger, by the events that the
// pools' keepers have, and no others: a wake-up that is lost is a task that is not
// done.
type simulation struct {
	t     *testing.T
	r     *rand.Rand
	l     *ledger
	now   int64
	pools []*simPool
	grows bool // workers may become larger than was declared
}

type simPool struct {
	*account
	sim     *simulation
	max     int
	queued  int
	done    int
	idling  []int64 // since when
	busy    int
	leaving []departure
	hurry   []departure // of busy workers that leave after their task
	lined   bool
	poked   bool
	wakeAt  int64
}

func (p *simPool) show() {
	since := int64(0)
	if len(p.idling) > 0 {
		since = p.idling[0]
	}
	idleFrom(p.account, len(p.idling), since)
}

func (p *simPool) wake(at int64) { p.wakeAt = min(p.wakeAt, at) }

// look is what a keeper does.
func (p *simPool) look() {
	now, l := p.sim.now, p.sim.l
	p.poked, p.wakeAt = false, never
	for p.queued > 0 && len(p.idling) > 0 {
		p.idling = p.idling[:len(p.idling)-1]
		p.queued--
		p.busy++
	}
	asks := false
	for p.queued > 0 && p.workers < p.max {
		ok, again := l.take(p.account, forTask, now)
		if !ok {
			asks = true
			if again > 0 {
				p.wake(again)
			}
			break
		}
		p.queued--
		p.busy++
	}
	if p.lined && !asks {
		l.withdraw(p.account)
	}
	p.lined = asks
	p.show()
	if l.short.Load() {
		l.reclaim(now)
	}
	p.give(now)
}

// give lets workers leave as the ledger asks.
func (p *simPool) give(now int64) {
	l := p.sim.l
	kept := func() bool { return len(p.idling)+p.busy <= p.min }
	for p.hurried > 0 {
		switch {
		case kept():
			l.refuse(p.account, 0, p.hurried, now)
		case len(p.idling) > 0:
			l.gave(p.account, wasPressed)
			p.idling = p.idling[1:]
			p.leaving = append(p.leaving, wasPressed)
		default:
			l.gave(p.account, wasPressed)
			p.busy--
			p.hurry = append(p.hurry, wasPressed)
		}
		p.show()
	}
	for p.asked > 0 {
		if len(p.idling) == 0 || kept() {
			l.refuse(p.account, p.asked, 0, now)
			return
		}
		l.gave(p.account, wasAsked)
		p.idling = p.idling[1:]
		p.leaving = append(p.leaving, wasAsked)
		p.show()
	}
}

// finish ends the task of a busy worker, which takes the next one or idles.
func (p *simPool) finish() {
	p.done++
	if n := len(p.hurry); n > 0 && p.sim.r.IntN(2) == 0 || p.busy == 0 {
		p.leaving = append(p.leaving, p.hurry[n-1])
		p.hurry = p.hurry[:n-1]
		return
	}
	if p.queued > 0 {
		p.queued--
		return
	}
	p.busy--
	p.idling = append(p.idling, p.sim.now)
	p.show()
	if p.sim.l.short.Load() {
		p.wake(p.sim.now + int64(growWait))
	}
}

// end is the end of a process that leaves.
func (p *simPool) end() {
	how := p.leaving[0]
	p.leaving = p.leaving[1:]
	bytes := p.mean()
	if p.workers == 1 {
		bytes = p.bytes
	}
	p.sim.l.release(p.account, bytes, how, p.sim.now)
	p.wake(p.sim.now)
}

// step lets one thing happen, and reports false when nothing can.
func (s *simulation) step() bool {
	var may []func()
	earliest := int64(never)
	for _, p := range s.pools {
		if p.poked || p.wakeAt <= s.now {
			may = append(may, p.look)
		}
		if p.busy+len(p.hurry) > 0 {
			may = append(may, p.finish)
		}
		if len(p.leaving) > 0 {
			may = append(may, p.end)
		}
		if s.grows && p.workers > 0 && s.r.IntN(20) == 0 {
			may = append(may, func() { s.l.weigh(p.account, int64(s.r.IntN(5)), 0, s.now) })
		}
		earliest = min(earliest, p.wakeAt)
	}
	if len(may) == 0 {
		if earliest == never {
			return false
		}
		s.now = max(s.now, earliest)
		return true
	}
	s.now += int64(s.r.IntN(int(time.Millisecond)))
	may[s.r.IntN(len(may))]()
	s.check()
	return true
}

// check holds the books against the pools.
func (s *simulation) check() {
	u := s.l.usage()
	if s.l.workers > 0 && u.workers > s.l.workers {
		s.t.Fatalf("%d workers, the bound is %d", u.workers, s.l.workers)
	}
	if s.l.memory > 0 && u.bytes > s.l.memory && !s.grows {
		s.t.Fatalf("%d bytes, the bound is %d", u.bytes, s.l.memory)
	}
	for _, p := range s.pools {
		if n := len(p.idling) + p.busy + len(p.leaving) + len(p.hurry); n != p.workers {
			s.t.Fatalf("%s has %d workers, its account %d", p.name, n, p.workers)
		}
		count := map[departure]int{}
		for _, how := range slices.Concat(p.leaving, p.hurry) {
			count[how]++
		}
		if p.asked < 0 || p.hurried < 0 || p.giving != p.asked+count[wasAsked] || p.ceding != p.hurried+count[wasPressed] {
			s.t.Fatalf("%s: asked for %d of %d, hurried %d of %d, leaving %v", p.name, p.asked, p.giving, p.hurried, p.ceding, count)
		}
		if p.lined != slices.Contains(s.l.waiting, p.account) {
			s.t.Fatalf("%s: in the line is %v", p.name, !p.lined)
		}
	}
}

// newSimulation makes up to six pools on a ledger in which they fit.
func newSimulation(t *testing.T, seed uint64) *simulation {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 4))
	s := &simulation{t: t, r: r, grows: seed%4 == 0, l: &ledger{}}
	for i := range 2 + r.IntN(5) {
		p := &simPool{sim: s, max: 1 + r.IntN(4), wakeAt: never}
		p.account = newAccount(fmt.Sprint("pool ", i), r.IntN(2)*r.IntN(2), int64(1+r.IntN(20)), new(int))
		p.poke = func() { p.poked = true }
		s.pools = append(s.pools, p)
		s.l.accounts = append(s.l.accounts, p.account)
	}
	workers, bytes := demands(s.l.accounts)
	if r.IntN(3) > 0 {
		s.l.workers = workers + r.IntN(4)
	}
	if r.IntN(3) > 0 {
		s.l.memory = bytes + int64(r.IntN(40))
	}
	if r.IntN(3) == 0 {
		s.l.starts = tokens{rate: 50, burst: 4, left: 4}
	}
	return s
}

func TestLedgerServesAllWithinItsBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		s := newSimulation(t, seed)
		given := make([]int, len(s.pools))
		for range 30 {
			i := s.r.IntN(len(s.pools))
			n := 1 + s.r.IntN(6)
			given[i] += n
			s.pools[i].queued += n
			s.pools[i].wake(s.now)
			for range s.r.IntN(40) {
				s.step()
			}
		}
		for steps := 0; s.step() && steps < 200_000; steps++ {
		}
		for i, p := range s.pools {
			if p.done != given[i] {
				t.Fatalf("seed %d: %s has done %d of %d tasks; %d wait, %d workers; bounds %d workers, %d bytes; usage %+v",
					seed, p.name, p.done, given[i], p.queued, p.workers, s.l.workers, s.l.memory, s.l.usage())
			}
		}
	}
}

// A pool that is never idle keeps its room only for a turn.
func TestLedgerServesBesideAPoolThatIsNeverIdle(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		s := newSimulation(t, 4*seed+1)
		s.l.workers, s.l.memory = 2, 0
		s.pools = s.pools[:2]
		s.l.accounts = s.l.accounts[:2]
		for _, p := range s.pools {
			p.min, p.queued, p.max = 0, 1_000_000, 2
			p.wake(s.now)
			for range 50 {
				s.step()
			}
		}
		for range 20_000 {
			s.step()
		}
		if a, b := s.pools[0].done, s.pools[1].done; min(a, b)*5 < max(a, b) {
			t.Errorf("seed %d: %d and %d tasks were done", seed, a, b)
		}
	}
}
