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

// Limits for the effect on other tasks. The goals are stricter, and the benchmarks check
// them: at most twice the p99 of a run alone. A test may run on a machine with other work,
// where workers below normal priority sometimes wait seconds for a processor. So half of
// the tasks must be quick, and the slowest must not be out of proportion.
const (
	latencyFactor = 40
	medianFloor   = 500 * time.Millisecond
	p99Floor      = slack
	// slack is how late an answer may be: half of what counts as a hang.
	slack = 10 * time.Second
	// hostGrowth is how much the memory of the host program may grow, in bytes, whatever
	// its workers do.
	hostGrowth = 20 << 20
	// fewest is how many innocent tasks are needed for a p99.
	fewest = 100
)

// pair is an executor with a misbehaving task, and an innocent executor of the same kind
// without bounds.
type pair struct {
	*subject

	keeps Promises
	other *subject
	// spoils says that what the misbehaving task leaves in its worker may end that worker
	// while a later task runs in it.
	spoils bool
	guests bool // Factory.Guests
}

// pair opens both executors. By default, the first one has two workers.
func (f Factory) pair(t *testing.T, o Options) *pair {
	t.Helper()
	leavesNothing(t) // before the executors are opened, so that its check runs after they are closed
	s := f.open(t, o)
	return &pair{subject: s, keeps: f.promises(s.Executor), other: f.open(t, Options{Workers: 1}), guests: f.Guests}
}

// beside calls bad while innocent tasks run in both executors. Then it checks these tasks,
// the host's memory, and the first executor.
func (p *pair) beside(bad func()) {
	p.t.Helper()
	p.works()
	p.other.works()
	alone := p.other.alone()
	m := watchMemory()
	defer m.stop()
	var forgiven []bullpen.Outcome
	if !p.can.Exact {
		forgiven = append(forgiven, bullpen.Lost)
	}
	if p.spoils {
		forgiven = append(forgiven, bullpen.Crashed)
	}
	here, there := p.innocents(forgiven...), p.other.innocents()
	defer here.stop() // even if bad ends the test
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
			p.t.Logf("%d innocent tasks of the same worker ended with %v", i.lost, forgiven)
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
	if m.growth() > hostGrowth && !p.guests {
		p.t.Errorf("the memory of the host's own program grew by %d MiB, want less than %d", m.growth()>>20, hostGrowth>>20)
	}
	p.works()
	p.other.works()
}

// works checks that the first executor works. Where the misbehaving task spoils its worker,
// tasks may crash until a new one has come.
func (p *pair) works() {
	p.t.Helper()
	for crashes := 0; p.spoils && crashes < 10; crashes++ {
		_, err := p.run(task("echo", "spoiled?"))
		if o, _ := bullpen.OutcomeOf(err); o != bullpen.Crashed {
			break
		}
	}
	p.subject.works()
}

// part returns the time within which the given percentage of the tasks ended.
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

// innocents submits short tasks to an executor, one after another.
type innocents struct {
	s        *subject
	forgiven []bullpen.Outcome
	quit     chan struct{} // closed by stop
	enough   chan struct{} // closed when fewest tasks have ended
	ended    chan struct{} // closed when no more tasks are submitted
	stopped  bool

	// The fields below are read after ended is closed.
	took  []time.Duration
	fault error
	lost  int
}

// innocents starts the tasks, some of which may end with a forgiven outcome; stop ends them.
func (s *subject) innocents(forgiven ...bullpen.Outcome) *innocents {
	i := &innocents{s: s, forgiven: forgiven, quit: make(chan struct{}), enough: make(chan struct{}), ended: make(chan struct{})}
	go i.run() // ends by stop or at the first error; stop waits for it
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

// stop ends the tasks, once, and waits for the current one.
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

// await waits until fewest tasks have ended or one has failed. On a busy machine it accepts
// fewer.
func (i *innocents) await() {
	i.s.t.Helper()
	select {
	case <-i.enough:
	case <-i.ended:
	case <-time.After(min(patience/2, 10*time.Second)):
	}
}

// one submits one task and waits for its result.
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
	case errors.As(a.err, &te) && slices.Contains(i.forgiven, te.Outcome):
		i.lost++
		return nil
	case a.err != nil:
		return fmt.Errorf("it ended with %w", a.err)
	case string(a.result.Payload) != text:
		return fmt.Errorf("it gave %q, want %q", a.result.Payload, text)
	}
	return nil
}

// meter measures the memory of this program.
type meter struct {
	before, most uint64 // most is read after ended is closed
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

// stop ends the measurement, once.
func (m *meter) stop() {
	if !m.stopped {
		m.stopped = true
		close(m.quit)
		<-m.ended
	}
}

func (m *meter) growth() uint64 { return m.most - m.before }

// memory returns the bytes that this program holds from the system, less the free part of
// its heap.
func memory() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64()
}
