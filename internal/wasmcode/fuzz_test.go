package wasmcode

import (
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// FuzzInstrument gives Instrument arbitrary bytes. What it returns is valid if, and only if,
// the original is.
func FuzzInstrument(f *testing.F) {
	for _, code := range endlessGuests() {
		if len(code) < 10_000 {
			f.Add(code)
		}
	}
	f.Add(build(vector(typeSection, signature(3, 2)), custom("name", 1, 4, 1, 0, 1, 'a')))
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > 10_000 {
			return
		}
		if _, err := Instrument(code); err == nil {
			_, _ = sameValidity(t, interpreter(t), "the module", code)
		}
	})
}

// FuzzBehavior generates a valid module and calls it with and without checks.
func FuzzBehavior(f *testing.F) {
	f.Add([]byte("a seed"))
	f.Fuzz(func(t *testing.T, seed []byte) { sameBehavior(t, compiler(t), seed) })
}

// TestBehavior does what FuzzBehavior does for random seeds.
func TestBehavior(t *testing.T) {
	t.Parallel()
	rt := compiler(t)
	random := rand.New(rand.NewPCG(3, 4))
	n := 3000
	if testing.Short() {
		n = 100
	}
	trapped := 0
	for range n {
		seed := make([]byte, 20+random.IntN(400))
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		trapped += sameBehavior(t, rt, seed)
		if t.Failed() {
			t.Fatalf("with seed %q", seed)
		}
	}
	t.Logf("%d modules, %d of %d calls trapped", n, trapped, n*2*generated)
}

// sameBehavior calls each function of a generated module and compares results, traps,
// memory and globals. It returns how many calls trapped.
func sameBehavior(t *testing.T, rt wazero.Runtime, seed []byte) int {
	t.Helper()
	g := &generator{in: seed}
	p, _ := newPair(t, rt, g.module())
	defer p.close(t)
	trapped := 0
	for i := 0; i < 2*generated && !t.Failed(); i++ {
		global(t, p.before, "budget").Set(budget)
		global(t, p.after, "budget").Set(budget)
		name := "f" + string(rune('0'+i%generated))
		if p.call(t, name, api.EncodeI32(constants[g.pick(len(constants))]), uint64(g.pick(256))) {
			trapped++
		}
		for _, name := range []string{"budget", "g", "h"} {
			if a, b := p.before.ExportedGlobal(name).Get(), p.after.ExportedGlobal(name).Get(); a != b {
				t.Errorf("global %s is %d, and instrumented %d", name, a, b)
			}
		}
	}
	return trapped
}
