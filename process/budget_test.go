//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// budget makes a budget.
func budget(t *testing.T, c BudgetConfig) *Budget {
	t.Helper()
	b, err := NewBudget(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// countMarked counts the processes that live and have mark in their command line.
func countMarked(mark string) (n int) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0
	}
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(line, []byte(mark)) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(f), "stat"))
		if _, rest, ok := strings.Cut(string(b), ") "); err == nil && ok && !strings.ContainsAny(rest[:1], "ZX") {
			n++
		}
	}
	return n
}

// watchProcesses looks at every start in pools that there are at most so many
// processes with mark. The function that it returns ends that.
func watchProcesses(t *testing.T, pools []*Pool, mark string, most int) func() {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc to count processes in")
	}
	var all sync.WaitGroup
	var feeds []*Feed
	starts := 0
	var mu sync.Mutex
	for _, p := range pools {
		f := p.Events(1 << 12)
		feeds = append(feeds, f)
		all.Go(func() {
			for e := range f.C {
				if e.Kind != Started {
					continue
				}
				if n := countMarked(mark); n > most {
					t.Errorf("%d processes, the budget is %d", n, most)
				}
				mu.Lock()
				starts++
				mu.Unlock()
			}
		})
	}
	return func() {
		for _, f := range feeds {
			f.Close()
		}
		all.Wait()
		if starts == 0 {
			t.Error("no start was seen")
		}
	}
}

// Twenty rare kinds, each with a worker that would stay for ever, on room for five.
func TestBudgetServesTwentyKindsWithFiveWorkers(t *testing.T) {
	t.Parallel()
	const kinds, most = 20, 5
	b := budget(t, BudgetConfig{Workers: most})
	mark := fmt.Sprint("kinds-", rand.Uint64())
	pools := make([]*Pool, kinds)
	for i := range pools {
		pools[i] = open(t, Config{Name: fmt.Sprint("kind-", i), Command: []string{self(), mark}, Max: 1, Idle: -1, Budget: b})
	}
	stop := watchProcesses(t, pools, mark, most)
	for range 3 {
		var all sync.WaitGroup
		for i, p := range pools {
			all.Go(func() {
				want := fmt.Sprint(i)
				r, err := p.Execute(within(t, 60*time.Second), bullpen.Task{Name: "echo", Payload: []byte(want)})
				if err != nil || string(r.Payload) != want {
					t.Errorf("kind %d: %q, %v", i, r.Payload, err)
				}
			})
		}
		all.Wait()
	}
	stop()
	s := b.Stats()
	if s.Workers > most || s.Waiting != 0 || s.Pools != kinds || s.Reclaimed < kinds-most || s.Started < kinds {
		t.Errorf("the budget says %+v", s)
	}
	retired := uint64(0)
	for _, p := range pools {
		retired += p.Stats().Stopped
	}
	if s.Started-uint64(s.Workers) != retired {
		t.Errorf("%d workers were started, %d are here and %d have left", s.Started, s.Workers, retired)
	}
}

func TestBudgetCountsProcessesOfExec(t *testing.T) {
	t.Parallel()
	const most = 3
	b := budget(t, BudgetConfig{Workers: most})
	mark := fmt.Sprint("exec-", rand.Uint64())
	var pools []*Pool
	for range 3 {
		pools = append(pools, open(t, Config{Command: []string{"sh", "-c", "read x; printf %s $x; : " + mark}, Protocol: Exec, Max: 4, Budget: b}))
	}
	stop := watchProcesses(t, pools, mark, most)
	var all sync.WaitGroup
	for _, p := range pools {
		all.Go(func() {
			for _, e := range p.ExecuteAll(within(t, 60*time.Second), batchOf(20, "", "x")) {
				if e.Err != nil || string(e.Result.Payload) != "x" {
					t.Errorf("%q, %v", e.Result.Payload, e.Err)
				}
			}
		})
	}
	all.Wait()
	stop()
	if s := b.Stats(); s.Workers != 0 || s.Memory != 0 || s.Waiting != 0 || s.Started != 60 {
		t.Errorf("the budget says %+v", s)
	}
	if n := pools[0].Capacity(); n != most {
		t.Errorf("the capacity is %d, want %d", n, most)
	}
}

// With and without a budget: the places that Resize adds serve what waits.
func TestPlacesForProcessesGrow(t *testing.T) {
	t.Parallel()
	for _, b := range []*Budget{nil, budget(t, BudgetConfig{Workers: 3})} {
		dir := t.TempDir()
		script := fmt.Sprintf("touch %[1]s/$$; while [ $(ls %[1]s | wc -l) -lt 3 ]; do sleep 0.01; done", dir)
		p := open(t, Config{Command: []string{"sh", "-c", script}, Protocol: Exec, Max: 1, Budget: b})
		done := make(chan struct{})
		go func() { // ends with its tasks, which need each other
			defer close(done)
			doAll(t, p, batchOf(3, "", ""))
		}()
		poll(t, "two tasks wait", func() bool { return p.Stats().Queued == 2 })
		if err := p.Resize(0, 3); err != nil {
			t.Fatal(err)
		}
		<-done
	}
}

func TestBudgetRefusesWhatCannotFit(t *testing.T) {
	t.Parallel()
	if _, err := NewBudget(BudgetConfig{Memory: -1, Workers: -1, Starts: math.NaN()}); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("the faults are %v", err)
	}
	b := budget(t, BudgetConfig{Workers: 4, Memory: 100 << 20})
	p := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Min: 2, Max: 4, Budget: b, Need: 10 << 20})
	for name, c := range map[string]Config{
		"no room for Min":                  {Min: 3, Max: 3, Need: 1 << 20},
		"one worker is larger than all":    {Need: 101 << 20},
		"one worker is larger than what p": {Need: 81 << 20},
		"by the limit of memory":           {Limits: bullpen.Limits{Memory: 200 << 20}},
		"two of the default":               {Min: 2, Max: 2},
	} {
		c.Command, c.Protocol, c.Budget, c.Name = []string{"cat"}, Lines, b, "newcomer"
		p, err := New(c)
		if err == nil || !strings.Contains(err.Error(), `"newcomer" does not fit in its Budget`) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = p.Close()
		}
	}
	if _, err := New(Config{Command: []string{"cat"}, Need: -1}); err == nil || !strings.Contains(err.Error(), "Need is -1") {
		t.Errorf("a negative need: %v", err)
	}
	if err := p.Resize(5, 5); err == nil {
		t.Error("a budget of 4 promises 5 workers")
	}
	if err := p.Resize(3, 4); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{Command: []string{"cat"}, Protocol: Lines, Budget: b, Min: 2, Max: 2, Need: 1}); err == nil {
		t.Error("a budget of 4 promises 3 and 2 workers")
	}
	if s := b.Stats(); s.Pools != 1 {
		t.Errorf("%d pools have joined", s.Pools)
	}
}

// Where there is no room for a successor, the old worker leaves first.
func TestBudgetIsKeptByReload(t *testing.T) {
	t.Parallel()
	b := budget(t, BudgetConfig{Workers: 2})
	mark := fmt.Sprint("reload-", rand.Uint64())
	p := open(t, Config{Command: []string{self(), mark}, Min: 2, Max: 2, Budget: b})
	if err := p.Ready(within(t, 30*time.Second), 2); err != nil {
		t.Fatal(err)
	}
	stop := watchProcesses(t, []*Pool{p}, mark, 2)
	old := workersOf(p)
	if err := p.Reload(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(within(t, 30*time.Second), 2); err != nil {
		t.Fatal(err)
	}
	for _, pid := range workersOf(p) {
		for _, other := range old {
			if pid == other {
				t.Errorf("worker %d was not replaced", pid)
			}
		}
	}
	stop()
}

// A pool that always has work must let others work too.
func TestBudgetMakesBusyWorkersGiveWay(t *testing.T) {
	t.Parallel()
	j := newJournal()
	b := budget(t, BudgetConfig{Workers: 1, Logger: j.logger()})
	busy := open(t, Config{Command: []string{self()}, Max: 1, Idle: -1, Budget: b})
	rare := open(t, Config{Command: []string{self()}, Max: 1, Idle: -1, Budget: b})
	do(t, busy, "echo", "x")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := busy.Execute(ctx, bullpen.Task{Name: "sleep", Payload: []byte("20ms")}); err != nil && ctx.Err() == nil {
					t.Errorf("the busy pool: %v", err)
				}
			}
		})
	}
	poll(t, "the busy pool has work that waits", func() bool { return busy.Stats().Queued > 0 })
	do(t, rare, "echo", "y")
	do(t, busy, "echo", "z") // and it gets its room back
	cancel()
	all.Wait()
	if s := b.Stats(); s.Pressed == 0 || s.Wait.Count == 0 {
		t.Errorf("the budget says %+v", s)
	}
	if s := busy.Stats(); len(s.Deaths) > 0 {
		t.Errorf("workers died: %v", s.Deaths)
	}
}

func TestBudgetBoundsStarts(t *testing.T) {
	t.Parallel()
	b := budget(t, BudgetConfig{Starts: 50})
	p := open(t, Config{Command: []string{"true"}, Protocol: Exec, Max: 8, Budget: b})
	burst := int(b.ledger.starts.burst)
	began := time.Now()
	doAll(t, p, batchOf(burst+10, "", ""))
	if d := time.Since(began); d < 190*ms {
		t.Errorf("%d starts took %v, want 200ms at least", burst+10, d)
	}
}

func TestBudgetMeasuresWhatIsNotDeclared(t *testing.T) {
	t.Parallel()
	b := budget(t, BudgetConfig{Memory: 1 << 30})
	p := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Min: 1, Max: 1, Budget: b})
	declared := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Max: 1, Need: 100 << 20, Budget: b})
	do(t, p, "", "x")
	measured := func() bool { n := b.Stats().Memory; return n > 0 && n < 20<<20 }
	if s := b.Stats(); s.Workers != 1 || s.Memory != DefaultNeed && !measured() {
		t.Fatalf("the budget says %+v", s)
	}
	poll(t, "the worker is measured", measured)
	do(t, declared, "", "x")
	if s := b.Stats(); s.Memory < 100<<20 || s.Memory > 120<<20 {
		t.Errorf("the budget says %+v", s)
	}
}

// Spare workers leave for tasks of others and not for spare workers of others.
func TestBudgetTakesSpareWorkersForTasks(t *testing.T) {
	t.Parallel()
	b := budget(t, BudgetConfig{Workers: 3})
	warm := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Max: 4, Spare: 3, Budget: b})
	poll(t, "the spare workers are there", func() bool { return warm.Stats().Idle == 3 })
	other := open(t, Config{Command: []string{"cat"}, Protocol: Lines, Max: 2, Spare: 1, Budget: b})
	poll(t, "the other pool waits for its spare worker", func() bool { return b.Stats().Waiting == 1 })
	if s := b.Stats(); s.Reclaimed != 0 {
		t.Errorf("%d spare workers have left for a spare one", s.Reclaimed)
	}
	do(t, other, "", "x")
	if s := b.Stats(); s.Reclaimed != 1 {
		t.Errorf("%d spare workers have left for a task", s.Reclaimed)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	poll(t, "the room is used again", func() bool { return warm.Stats().Idle == 3 })
}

// A task that is taken back while its pool waits for room leaves nothing behind.
func TestBudgetForgetsTasksThatAreTakenBack(t *testing.T) {
	t.Parallel()
	b := budget(t, BudgetConfig{Workers: 1})
	for _, protocol := range []Protocol{Lines, Exec} {
		first := open(t, Config{Command: []string{"sh", "-c", "read x; echo $x; read x"}, Protocol: Lines, Max: 1, Budget: b})
		do(t, first, "", "x")
		_, second := first, open(t, Config{Command: []string{"cat"}, Protocol: protocol, Max: 1, Budget: b})
		first.mu.Lock() // it cannot let its worker leave
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		_, err := second.Execute(ctx, bullpen.Task{Payload: []byte("y")})
		cancel()
		first.mu.Unlock()
		wantNeverStarted(t, err, context.DeadlineExceeded)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		poll(t, "nobody waits", func() bool { s := b.Stats(); return s.Waiting == 0 && s.Workers == 0 })
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A closed pool gives its room back, also the one that is promised.
func TestBudgetGetsRoomBackFromPoolsThatEnd(t *testing.T) {
	t.Parallel()
	b := budget(t, BudgetConfig{Workers: 1})
	c := Config{Command: []string{"cat"}, Protocol: Lines, Min: 1, Max: 1, Budget: b}
	first := open(t, c)
	if _, err := New(c); err == nil || errors.Is(err, bullpen.ErrStart) {
		t.Fatalf("the second pool: %v", err)
	}
	do(t, first, "", "x")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	do(t, open(t, c), "", "y")
}
