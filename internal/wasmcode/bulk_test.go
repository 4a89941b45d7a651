package wasmcode

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const bulkPages = 8

// bulkModule exports memory.fill, memory.copy, memory.init and data.drop as functions.
func bulkModule() []byte {
	segment := make([]byte, 200_000)
	for i := range segment {
		segment[i] = byte(i * 7)
	}
	three := []byte{opLocalGet, 0, opLocalGet, 1, opLocalGet, 2}
	with := func(code ...byte) []byte { return function0(append(append([]byte{}, three...), code...)...) }
	return build(
		vector(typeSection, signature(3, 0), signature(0, 0)),
		vector(functionSection, []byte{0}, []byte{0}, []byte{0}, []byte{1}),
		vector(memorySection, []byte{0, bulkPages}),
		vector(exportSection,
			exported("fill", Function, 0), exported("copy", Function, 1), exported("init", Function, 2),
			exported("drop", Function, 3), exported("memory", MemoryKind, 0)),
		raw(dataCountSection, []byte{1}),
		vector(codeSection,
			with(opBulk, bulkMemoryFill, 0), with(opBulk, bulkMemoryCopy, 0, 0),
			with(opBulk, bulkMemoryInit, 0, 0), function0(opBulk, bulkDataDrop, 0)),
		vector(dataSection, append(appendU32([]byte{1}, uint32(len(segment))), segment...)),
	)
}

// pair is a module as it is and instrumented.
type pair struct{ before, after api.Module }

func newPair(t testing.TB, rt wazero.Runtime, code []byte) (pair, *Module) {
	t.Helper()
	m := instrument(t, code)
	return pair{instantiate(t, rt, code), instantiate(t, rt, m.Code)}, m
}

func (p pair) close(t testing.TB) {
	t.Helper()
	for _, i := range []api.Module{p.before, p.after} {
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// call calls a function of both and compares what comes of it, and the memories. It reports
// whether the function trapped.
func (p pair) call(t testing.TB, name string, args ...uint64) bool {
	t.Helper()
	outcome := func(i api.Module) ([]uint64, string) {
		r, err := i.ExportedFunction(name).Call(context.Background(), args...)
		if err != nil {
			line, _, _ := strings.Cut(err.Error(), "\n")
			return nil, line
		}
		return r, ""
	}
	r1, trap1 := outcome(p.before)
	r2, trap2 := outcome(p.after)
	if trap1 != trap2 || len(r1) != len(r2) || len(r1) > 0 && r1[0] != r2[0] {
		t.Errorf("%s%v gives %v %q, and instrumented %v %q", name, args, r1, trap1, r2, trap2)
	}
	m1, ok1 := p.before.Memory().Read(0, p.before.Memory().Size())
	m2, ok2 := p.after.Memory().Read(0, p.after.Memory().Size())
	if !ok1 || !ok2 || !bytes.Equal(m1, m2) {
		t.Errorf("%s%v leaves other memory when instrumented", name, args)
	}
	return trap1 != ""
}

// TestBulk compares bulk operations with those in pieces, with lengths and distances
// around the size of a piece, overlapping and out of bounds.
func TestBulk(t *testing.T) {
	t.Parallel()
	p, m := newPair(t, compiler(t), bulkModule())
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, bulkPages<<16)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	const piece = 1 << pieceBits
	lengths := []uint64{0, 1, 255, piece - 1, piece, piece + 1, 2 * piece, 3*piece - 1, 200_000, 200_001, bulkPages * piece, bulkPages*piece + 1, 1<<32 - 1}
	starts := []uint64{0, 1, piece - 1, piece, piece + 1, 3 * piece, bulkPages*piece - 1, bulkPages * piece, bulkPages*piece + 1, 1<<32 - 1}
	for _, name := range []string{"fill", "copy", "init"} {
		for _, target := range starts {
			for _, source := range starts {
				for _, n := range lengths {
					if testing.Short() && random.IntN(10) > 0 {
						continue
					}
					if random.IntN(4) == 0 {
						p.before.Memory().Write(0, noise)
						p.after.Memory().Write(0, noise)
					}
					if p.call(t, name, target, source, n); t.Failed() {
						return
					}
				}
			}
		}
	}
	p.call(t, "drop")
	for _, n := range []uint64{0, 1, piece + 1} {
		p.call(t, "init", 0, 0, n)
	}
	if ticks := global(t, p.after, m.Ticks).Get(); ticks < 10 {
		t.Errorf("%d ticks: bulk operations cost nothing", ticks)
	}
}
