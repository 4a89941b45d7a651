package executortest

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// What an innocent neighbour may be asked to bear. The goals are stricter, and
// benchmarks hold them: at most twice the p99 alone. A test runs beside anything:
// on a machine that has other work, workers below normal priority may wait for
// seconds for a processor, now and then. So half of all tasks has to be quick,
// and the slowest ones not out of all proportion.
const (
	latencyFactor = 40
	medianFloor   = 500 * time.Millisecond
	p99Floor      = slack
	// slack is what an answer may come too late: half of what counts as a hang.
	slack = 10 * time.Second
	// hostGrowth is the most by which the memory of the host's own program may
	// grow, in bytes, whatever its workers do.
	hostGrowth = 20 << 20
	// fewest is how many tasks of an innocent neighbour make a p99.
	fewest = 100
)

// pair is an executor with a bad task, and an innocent one of the same kind
// beside it, which no bounds hold back.
type pair struct {
	*subject

	keeps Promises
	other *subject
}

// pair opens both executors. Without other wishes the first one has two workers.
func (f Factory) pair(t *testing.T, o Options) *pair {
	t.Helper()
	leavesNothing(t) // before the executors are opened, so that it looks after their end
	s := f.open(t, o)
	return &pair{subject: s, keeps: f.promises(s.Executor), other: f.open(t, Options{Workers: 1})}
}

// beside lets something bad happen while innocent tasks run, in the other
// executor and in the same one, and checks what becomes of those, of the host's
// memory, and of the executor afterwards.
func (p *pair) beside(bad func()) {
	p.t.Helper()
	p.works()
	p.other.works()
	alone := p.other.alone()
	m := watchMemory()
	defer m.stop()
	here, there := p.innocents(!p.can.Exact), p.other.innocents(false)
	defer here.stop() // also when bad ends the test
	defer there.stop()
	bad()
	there.await()
	here.stop()
	there.stop()
	m.stop()
	for _, i := range []*innocents{here, there} {
		if i.fault != nil {
			p.t.Errorf("an innocent task beside it: %v", i.fault)
		}
		if i.lost > 0 {
			p.t.Logf("%d innocent tasks of the same worker were lost, which Guarantees.Exact would rule out", i.lost)
		}
	}
	p.t.Logf("p99 of an innocent neighbour: %v alone, %v beside it (%d tasks); the host's memory grew by %d KiB",
		part(alone, 99), part(there.took, 99), len(there.took), m.growth()>>10)
	for percent, floor := range map[int]time.Duration{50: medianFloor, 99: p99Floor} {
		a, d := part(alone, percent), part(there.took, percent)
		if d > max(latencyFactor*a, floor) {
			p.t.Errorf("%d of 100 tasks of an innocent neighbour take up to %v, alone %v", percent, d, a)
		}
	}
	if m.growth() > hostGrowth {
		p.t.Errorf("the memory of the host's own program grew by %d MiB, want less than %d", m.growth()>>20, hostGrowth>>20)
	}
	p.works()
	p.other.works()
}

// part gives the time within which so many of 100 tasks ended.
func part(took []time.Duration, percent int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[(len(took)-1)*percent/100]
}

// pause is the time between two innocent tasks.
const pause = time.Millisecond

// alone measures innocent tasks while nothing else runs.
func (s *subject) alone() []time.Duration {
	s.t.Helper()
	const warm = 20 // the first ones are slower
	took := make([]time.Duration, warm+fewest)
	for i := range took {
		begun := time.Now()
		s.works()
		took[i] = time.Since(begun)
		_ = wait(s.t.Context(), pause)
	}
	return took[warm:]
}

// innocents gives short tasks to an executor, one after the other.
type innocents struct {
	s       *subject
	forgive bool          // a lost task is no fault
	quit    chan struct{} // closed by stop
	enough  chan struct{} // closed when the fewest tasks have ended
	ended   chan struct{} // closed when no more tasks are given
	stopped bool

	// Read when ended is closed.
	took  []time.Duration
	fault error
	lost  int
}

// innocents starts them; stop ends them.
func (s *subject) innocents(forgive bool) *innocents {
	i := &innocents{s: s, forgive: forgive, quit: make(chan struct{}), enough: make(chan struct{}), ended: make(chan struct{})}
	go i.run() // ends by stop, or with the first fault; stop waits for it
	return i
}

func (i *innocents) run() {
	defer close(i.ended)
	for n := 1; ; n++ {
		begun := time.Now()
		if i.fault = i.one(n); i.fault != nil {
			return
		}
		i.took = append(i.took, time.Since(begun))
		if n == fewest {
			close(i.enough)
		}
		select {
		case <-i.quit:
			return
		case <-time.After(pause):
		}
	}
}

// stop ends them, once, and waits for the task under way.
func (i *innocents) stop() {
	i.s.t.Helper()
	if i.stopped {
		return
	}
	i.stopped = true
	close(i.quit)
	select {
	case <-i.ended:
	case <-time.After(2 * patience):
		i.s.t.Fatal("an innocent task beside it hangs in Submit")
	}
}

// await waits until there are enough of them, or one has failed. On a busy
// machine fewer must do.
func (i *innocents) await() {
	i.s.t.Helper()
	select {
	case <-i.enough:
	case <-i.ended:
	case <-time.After(min(patience/2, 10*time.Second)):
	}
}

// one gives one task and waits for its result.
func (i *innocents) one(n int) error {
	text := fmt.Sprint("innocent ", n)
	a, err := i.s.submit(i.s.t.Context(), task("echo", text), nil)
	if err != nil {
		return fmt.Errorf("it was refused: %w", err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		return fmt.Errorf("no answer within %v", patience)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var te *bullpen.TaskError
	switch {
	case errors.As(a.err, &te) && te.Outcome == bullpen.Lost && i.forgive:
		i.lost++
		return nil
	case a.err != nil:
		return fmt.Errorf("it ended with %w", a.err)
	case string(a.result.Payload) != text:
		return fmt.Errorf("it gave %q, want %q", a.result.Payload, text)
	}
	return nil
}

// meter watches the memory of this program.
type meter struct {
	before, most uint64 // most is read when ended is closed
	quit, ended  chan struct{}
	stopped      bool
}

func watchMemory() *meter {
	runtime.GC()
	m := &meter{before: memory(), quit: make(chan struct{}), ended: make(chan struct{})}
	m.most = m.before
	go func() { // ends by stop, which waits for it
		defer close(m.ended)
		look := time.NewTicker(10 * time.Millisecond)
		defer look.Stop()
		for {
			m.most = max(m.most, memory())
			select {
			case <-look.C:
			case <-m.quit:
				return
			}
		}
	}()
	return m
}

// stop ends the watch, once.
func (m *meter) stop() {
	if !m.stopped {
		m.stopped = true
		close(m.quit)
		<-m.ended
	}
}

func (m *meter) growth() uint64 { return m.most - m.before }

// memory is what this program has taken from the system and not given back, but
// for what its heap holds free, in bytes.
func memory() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64()
}
