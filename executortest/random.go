package executortest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// seedVariable names the environment variable that repeats a random test with its seed.
const seedVariable = "BULLPEN_SEED"

const (
	givers       = 4  // goroutines that submit tasks
	tasksOfGiver = 80 // in each round
	killPause    = 15 * time.Millisecond
)

// testRandom submits tasks of all kinds from several goroutines, cancels them, lets
// deadlines pass, kills workers and ends the executor, all at random. It checks that each
// accepted task has exactly one outcome (as every test does at its end), that a task with a
// result ran exactly once, and that a task that never started did not run.
func testRandom(t *testing.T, f Factory) {
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q: use a number", seedVariable, text)
		}
		seed = n
	}
	t.Logf("%s=%d gives the same tasks again", seedVariable, seed)
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for i := range rounds {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			r := &randomRound{
				subject: f.open(t, Options{
					Workers:  1 + rng.IntN(3),
					Queue:    1 + rng.IntN(20),
					Overflow: Overflow(i % 3),
					Grace:    20 * time.Millisecond * time.Duration(1+rng.IntN(10)),
				}),
				factory: f,
				marks:   filepath.Join(t.TempDir(), "marks"),
			}
			r.run(rng)
		})
	}
}

type randomRound struct {
	*subject

	factory Factory
	marks   string // the file to which tasks append a line when they run
}

func (r *randomRound) run(rng *rand.Rand) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var all sync.WaitGroup
	for g := range givers {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(g)))
		all.Go(func() { r.give(ctx, own, g) }) // ends after its tasks; this function waits for it
	}
	given := make(chan struct{})
	go func() { all.Wait(); close(given) }() // ends with the givers

	// In half of the rounds, the executor ends while tasks are still being submitted.
	early := time.NewTimer(time.Duration(1+rng.IntN(60)) * time.Millisecond)
	defer early.Stop()
	if rng.IntN(2) == 0 {
		early.Stop()
	}
	r.killUntil(given, early.C)
	ended := begin(r.ending(rng))
	r.killUntil(given, nil)
	_ = finish(r.t, "a random ending", ended) // the tests of ending methods check its error
	r.checkMarks()
}

// killUntil kills a worker now and then, if possible, until one of two events.
func (r *randomRound) killUntil(given <-chan struct{}, early <-chan time.Time) {
	r.t.Helper()
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	bound := time.NewTimer(patience)
	defer bound.Stop()
	for {
		select {
		case <-given:
			return
		case <-early:
			return
		case <-bound.C:
			r.t.Fatalf("Submit hangs: tasks are still being given after %v", patience)
		case <-tick.C:
			if r.factory.KillWorker != nil {
				r.factory.KillWorker(r.t, r.Executor)
			}
		}
	}
}

// ending chooses an ending method at random.
func (r *randomRound) ending(rng *rand.Rand) func() error {
	soon := func(end func(context.Context) error) func() error {
		after := time.Duration(rng.IntN(20)) * time.Millisecond
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			return end(ctx)
		}
	}
	switch rng.IntN(5) {
	case 0:
		return func() error { return r.Drain(context.Background()) }
	case 1:
		return func() error { return r.Stop(context.Background()) }
	case 2:
		return soon(r.Drain)
	case 3:
		return soon(r.Stop)
	default:
		return r.Close
	}
}

// give submits tasks at random, without waiting for them.
func (r *randomRound) give(ctx context.Context, rng *rand.Rand, giver int) {
	for i := range tasksOfGiver {
		k := r.task(rng, giver*tasksOfGiver+i)
		own, cancel := ctx, context.CancelFunc(func() {})
		switch rng.IntN(4) {
		case 0:
			own, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(5000))*time.Microsecond)
		case 1:
			own, cancel = context.WithCancel(ctx)
			time.AfterFunc(time.Duration(rng.IntN(3000))*time.Microsecond, cancel)
		}
		// A refusal is allowed; the answer records it.
		if err := r.Submit(own, k, func(bullpen.Result, error) { cancel() }); err != nil {
			cancel()
		}
	}
}

// task makes a task of a random kind. Most of them mark that they ran.
func (r *randomRound) task(rng *rand.Rand, number int) bullpen.Task {
	var k bullpen.Task
	switch n := rng.IntN(100); {
	case n < 4:
		k = task("fail", "retry:at random")
	case n < 7:
		k = task("panic", "at random")
	case n < 9:
		k = task("nobody-serves-this", "")
	case n < 12:
		k = task("big", "5000")
		k.Limits.Output = 4000 + rng.IntN(2000)
	case n < 13 && r.can.CrashProof:
		k = task("exit", "1")
	case n < 30 || r.can.NoFilesystem:
		k = task("echo", strings.Repeat("x", rng.IntN(100_000)))
	default:
		pause := time.Duration(rng.IntN(1500)) * time.Microsecond
		k = task("mark", fmt.Sprintf("%s %d %s", r.marks, number, pause))
	}
	k.ID = strconv.Itoa(number)
	if rng.IntN(5) == 0 {
		k.Limits.Timeout = time.Duration(1+rng.IntN(1000)) * time.Microsecond
	}
	return k
}

// checkMarks compares the outcomes of the tasks with what they did.
func (r *randomRound) checkMarks() {
	r.t.Helper()
	text, err := os.ReadFile(r.marks)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(text)) {
		runs[strings.TrimSpace(line)]++
	}
	r.mu.Lock()
	answers := r.answers
	r.mu.Unlock()
	for _, a := range answers {
		result, err := a.wait(r.t)
		if a.task.Name != "mark" {
			continue
		}
		_, started := bullpen.OutcomeOf(err)
		switch n := runs[a.task.ID]; {
		case n > 1:
			r.t.Errorf("task %s ran %d times", a.task.ID, n)
		case err == nil && n != 1:
			r.t.Errorf("task %s gave a result and did not run", a.task.ID)
		case err == nil && string(result.Payload) != a.task.ID:
			r.t.Errorf("task %s gave the result of another: %q", a.task.ID, result.Payload)
		case !started && n != 0:
			r.t.Errorf("task %s ran and is said never to have started: %v", a.task.ID, err)
		}
	}
}
