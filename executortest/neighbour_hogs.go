package executortest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Bounds of the misbehaving tasks, which try to use far more.
const (
	boundMemory = 64 << 20
	boundCPU    = 0.5
	boundPIDs   = 32

	hogMiB     = 512
	forkShells = 64
)

// amount matches the numbers in an error about memory.
var amount = regexp.MustCompile(`[0-9]+(\.[0-9]+)? ?([KMG]i?B|bytes)`)

func testMemory(t *testing.T, f Factory) {
	p := f.pair(t, Options{Bounds: Bounds{Memory: boundMemory}})
	if !p.can.MemoryBound {
		k := task("echo", "x")
		k.Limits.Memory = boundMemory
		_, err := p.run(k)
		wantNeverStarted(t, err, bullpen.ErrRefused)
	}
	need(t, "MemoryBound", p.can.MemoryBound, "a task that takes more and more memory would take this machine's", p.can.Notes...)
	p.beside(func() {
		for range 3 {
			a := p.give(t.Context(), task("bad-memory", strconv.Itoa(hogMiB)))
			waiting := p.queued(5)
			r, err := a.wait(t)
			te := taskError(t, err, bullpen.Memory)
			// The bound and the peak, in any unit.
			if found := amount.FindAllString(te.Error(), -1); len(found) < 2 {
				t.Errorf("the error %q does not have both the memory of the worker and its limit", te)
			}
			if peak := r.Stats.PeakMemory; peak != 0 && (peak < boundMemory/2 || peak > 2*boundMemory) {
				t.Errorf("the peak is %d bytes with a limit of %d", peak, int64(boundMemory))
			}
			for _, other := range waiting {
				if _, err := other.wait(t); err != nil {
					t.Errorf("a queued task ended with %v when another one ran out of memory, want it run", err)
				}
			}
		}
	})
}

func testForks(t *testing.T, f Factory) {
	p := f.pair(t, Options{Bounds: Bounds{PIDs: boundPIDs}})
	need(t, "PIDs", p.keeps.PIDs, "a task that forks would take all process numbers of this machine")
	needProcesses(t)
	mark := newMark()
	most := 0
	p.spoils = true // a runtime that gets no more threads may end its process
	p.beside(func() {
		k := task("bad-forks", fmt.Sprint(forkShells, " ", mark))
		k.Limits.Timeout = min(patience/2, 10*time.Second)
		a := p.give(t.Context(), k)
		count := func() { most = max(most, len(marked(mark))) }
		eventually(t, "the fork bomb ends", func() bool { count(); return a.known() })
		if _, err := a.wait(t); err != nil {
			if o, _ := bullpen.OutcomeOf(err); !slices.Contains([]bullpen.Outcome{bullpen.Failed, bullpen.Crashed, bullpen.Timeout}, o) {
				t.Errorf("a fork bomb ended with %v", err)
			}
		}
		for range 20 { // the shells continue to fork
			count()
			_ = wait(t.Context(), 5*time.Millisecond)
		}
	})
	t.Logf("%d processes at the most, of %d", most, forkShells*bombSize)
	if most > boundPIDs {
		t.Errorf("a worker bounded to %d processes had %d", boundPIDs, most)
	}
	p.endsFamily(mark)
}

// endsFamily ends the workers, or the executor if ending the workers is not promised to
// suffice. Then it checks that no process with the mark is alive.
func (p *pair) endsFamily(mark string) {
	p.t.Helper()
	gone := func() bool { return len(marked(mark)) == 0 }
	if p.keeps.Family {
		eventually(p.t, "what a task has started ends with its worker", func() bool {
			if gone() {
				return true
			}
			_, err := p.run(task("bad-crash", "SIGKILL")) // may hit another worker; then it is repeated
			wantOutcome(p.t, err, bullpen.Crashed)
			return gone()
		})
		return
	}
	if err := within(p.t, "Close", p.Close); err != nil {
		p.t.Errorf("Close() = %v", err)
	}
	if left := marked(mark); len(left) > 0 {
		p.t.Errorf("processes %v, which tasks started, live after Close", left)
	}
}

func testProcessor(t *testing.T, f Factory) {
	const spell = time.Second
	p := f.pair(t, Options{Bounds: Bounds{CPU: boundCPU}})
	p.beside(func() {
		r, err := p.run(task("bad-spin", spell.String()))
		if err != nil {
			t.Errorf("a task that spins for %v ended with %v", spell, err)
			return
		}
		used, err := time.ParseDuration(string(r.Payload))
		if err != nil {
			t.Error(err)
		}
		t.Logf("it took %v of processor time in %v", used, r.Stats.Ran)
		// A quota applies to intervals of 100 ms, and the task may run longer than it wants
		// to spin.
		if most := boundCPU * (max(r.Stats.Ran, spell) + spell/5).Seconds() * 1.25; p.can.CPUBound && used.Seconds() > most {
			t.Errorf("a worker bounded to %g processors took %v of their time in %v", boundCPU, used, r.Stats.Ran)
		}
	})
}

// testStatic repeats the experiment of 2020: a static variable is 543 for tasks that share
// it with one that has set it, and 0 for isolated ones.
func testStatic(t *testing.T, f Factory) {
	p := f.pair(t, Options{Workers: 1})
	static.Store(543)
	defer static.Store(0)
	direct, err := Handlers()["bad-static"](t.Context(), task("bad-static", ""))
	if err != nil || string(direct) != "543" {
		t.Fatalf("a direct call gives %q, %v, want 543", direct, err)
	}
	need(t, "CrashProof", p.can.CrashProof, "tasks share their process, and so its variables, with this one", p.can.Notes...)
	p.beside(func() {
		check := func(what string, s *subject, payload, want string) {
			t.Helper()
			if r, err := s.run(task("bad-static", payload)); err != nil || string(r.Payload) != want {
				t.Fatalf("%s: the static variable is %q, %v, want %s", what, r.Payload, err, want)
			}
		}
		check("of the host", p.subject, "", "0")
		check("set by a task", p.subject, "7", "7")
		check("of a neighbour", p.other, "", "0")
		if n := static.Load(); n != 543 {
			t.Fatalf("a task has set a variable of the host to %d", n)
		}
		_, err := p.run(task("bad-crash", "exit 0"))
		wantOutcome(t, err, bullpen.Crashed)
		check("of the worker that was there before", p.subject, "", "0")
	})
}

func testDescriptors(t *testing.T, f Factory) {
	f.needSystem(t, "there is no descriptor to take")
	p := f.pair(t, Options{Workers: 1})
	need(t, "CrashProof", p.can.CrashProof, "the descriptors would be those of this process", p.can.Notes...)
	needProcesses(t)
	before := len(descriptors())
	p.beside(func() {
		r, err := p.run(task("bad-descriptors", ""))
		if n, _ := strconv.Atoi(string(r.Payload)); err != nil || n < 100 {
			t.Errorf("a task that opens all files it can gave %q, %v, want their number", r.Payload, err)
		}
		for _, k := range []bullpen.Task{task("big", "1000000"), task("sleep", "1ms"), task("echo", "x")} {
			if _, err := p.run(k); err != nil {
				t.Errorf("%s after it ended with %v", describe(k), err)
			}
		}
		if n := len(descriptors()); n > before+fewest {
			t.Errorf("the host has %d descriptors, had %d", n, before)
		}
	})
}

func testDisk(t *testing.T, f Factory) {
	p := f.pair(t, Options{Workers: 2, Bounds: Bounds{Temp: true}})
	need(t, "Temp", p.keeps.Temp, "what a task leaves in the temporary folder stays there")
	mib := 64
	if long() {
		mib = 512
	}
	var path string
	p.beside(func() {
		r, err := p.run(task("bad-disk", strconv.Itoa(mib)))
		if err == nil {
			path = string(r.Payload)
		} else if o, _ := bullpen.OutcomeOf(err); o != bullpen.Memory { // where the folder is memory
			t.Errorf("a task that fills its temporary folder ended with %v", err)
		}
		p.ownFolders()
	})
	if err := within(t, "Close", p.Close); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if path != "" && exists(path) {
		_ = os.Remove(path)
		t.Errorf("%s is there after Close", path)
	}
}

// ownFolders checks that two workers have different temporary folders.
func (p *pair) ownFolders() {
	p.t.Helper()
	k := task("bad-temp", "100ms")
	eventually(p.t, "two workers run at once", func() bool {
		a, b := p.give(p.t.Context(), k), p.give(p.t.Context(), k)
		first, err := a.wait(p.t)
		if err != nil {
			p.t.Fatal(err)
		}
		second, err := b.wait(p.t)
		if err != nil {
			p.t.Fatal(err)
		}
		if first.Stats.Worker == second.Stats.Worker {
			return false
		}
		if string(first.Payload) == string(second.Payload) {
			p.t.Errorf("workers %s and %s share the temporary folder %s", first.Stats.Worker, second.Stats.Worker, first.Payload)
		}
		if string(first.Payload) == os.TempDir() {
			p.t.Errorf("the temporary folder of a worker is that of the host, %s", first.Payload)
		}
		return true
	})
}

func testOutput(t *testing.T, f Factory) {
	p := f.pair(t, Options{})
	need(t, "CrashProof", p.can.CrashProof, "the output would be that of this process", p.can.Notes...)
	mib, bound := 64, 2*patience
	if long() {
		mib, bound = 1024, 16*bound
	}
	p.beside(func() {
		begun := time.Now()
		if _, err := p.give(t.Context(), task("bad-output", strconv.Itoa(mib))).waitFor(t, bound); err != nil {
			t.Errorf("a task that prints %d MiB ended with %v", mib, err)
		}
		t.Logf("%d MiB were printed in %v", mib, time.Since(begun))
	})
}

// long reports whether floods run at full size.
func long() bool { return os.Getenv("BULLPEN_LONG") != "" }
