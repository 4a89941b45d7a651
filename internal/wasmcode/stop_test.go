package wasmcode

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// endlessGuests run for ever, or far longer than a test waits.
func endlessGuests() map[string][]byte {
	// f calls itself twice, 60 deep.
	twice := []byte{
		opLocalGet, 0, opIf, noResult,
		opLocalGet, 0, opI32Const, 1, opI32Sub, opCall, 0,
		opLocalGet, 0, opI32Const, 1, opI32Sub, opCall, 0,
		opEnd,
	}
	run60 := build(
		vector(typeSection, signature(1, 0), signature(0, 0)),
		vector(functionSection, []byte{0}, []byte{1}),
		vector(exportSection, exported("run", Function, 1)),
		vector(codeSection, function0(twice...), function0(opI32Const, 60, opCall, 0)),
	)
	// g calls itself 100 000 deep, and works when it returns.
	deep := []byte{opLocalGet, 0, opIf, noResult, opLocalGet, 0, opI32Const, 1, opI32Sub, opCall, 0, opEnd}
	for range 20 {
		deep = append(deep, opLocalGet, 0, opI32Const, 3, opI32Add, opLocalSet, 0)
	}
	unwind := append(constant32([]byte{opLoop, noResult}, 100_000), opCall, 0, opBr, 0, opEnd)
	unwinding := build(
		vector(typeSection, signature(1, 0), signature(0, 0)),
		vector(functionSection, []byte{0}, []byte{1}),
		vector(exportSection, exported("run", Function, 1)),
		vector(codeSection, function0(deep...), function0(unwind...)),
	)
	straight := []byte{opLoop, noResult}
	for range 100_000 { // a body without a branch
		straight = append(straight, opI32Const, 0, 0x28, 2, 0, opDrop)
	}
	straight = append(straight, opBr, 0, opEnd)
	bulk := func(op byte, tail ...byte) []byte {
		code := []byte{opLoop, noResult, opI32Const, 0, opI32Const, 1}
		code = append(constant32(code, 1<<30-1), opBulk, op)
		code = append(append(code, tail...), opBr, 0, opEnd)
		return build(
			vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0}),
			vector(memorySection, append([]byte{0}, appendU32(nil, 1<<14)...)), // 1 GiB
			vector(exportSection, exported("run", Function, 0)),
			vector(codeSection, function0(code...)),
		)
	}
	grow := []byte{opLoop, noResult, opI32Const, 0, opMemoryGrow, 0, opDrop, opBr, 0, opEnd}
	return map[string][]byte{
		"loop":           endless(),
		"recursion":      run60,
		"unwinding":      unwinding,
		"straight":       runFunction(0, 0, straight...),
		"memory.fill":    bulk(bulkMemoryFill, 0),
		"memory.copy":    bulk(bulkMemoryCopy, 0, 0),
		"memory.grow(0)": runFunction(0, 0, grow...),
		"no memory": build(
			vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0}),
			vector(exportSection, exported("run", Function, 0)),
			vector(codeSection, function0(opLoop, noResult, opBr, 0, opEnd)),
		),
	}
}

// TestStop sets the flag from another goroutine while a guest runs.
func TestStop(t *testing.T) {
	rt := compiler(t)
	for name, code := range endlessGuests() {
		if testing.Short() && strings.HasPrefix(name, "memory.") && name != "memory.grow(0)" {
			continue // they need 1 GiB
		}
		t.Run(name, func(t *testing.T) {
			m := instrument(t, code)
			i := instantiate(t, rt, m.Code)
			defer i.Close(context.Background())
			took := stopAfter(t, m, i, 20*time.Millisecond)
			if most := 2 * time.Second; took > most {
				t.Errorf("stopped %s after the flag was set, more than %s", took, most)
			}
			t.Logf("stopped %s after the flag was set, %d ticks", took, global(t, i, m.Ticks).Get())
		})
	}
}

// stopAfter runs run, sets the flag after a time, and returns how long it then took.
func stopAfter(t testing.TB, m *Module, i api.Module, after time.Duration) time.Duration {
	t.Helper()
	ended := make(chan error, 1)
	var end time.Time
	go func() { // ends when the guest is stopped; the receive below waits for it
		_, err := i.ExportedFunction("run").Call(context.Background())
		end = time.Now()
		ended <- err
	}()
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case err := <-ended:
		t.Fatalf("the guest ended by itself: %v", err)
	case <-timer.C:
	}
	set := time.Now()
	global(t, i, m.Flag).Set(1)
	err := <-ended
	if err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Fatalf("error %v, want a trap at unreachable", err)
	}
	return end.Sub(set)
}

// TestCollection keeps what the pause rests on: that wazero goes through Go when a memory
// grows by nothing. Without that, a collection waits until the guest ends, after seconds.
func TestCollection(t *testing.T) {
	m := instrument(t, loops()["empty"])
	i := instantiate(t, compiler(t), m.Code)
	ended := make(chan error, 1)
	go func() { // ends when the guest is stopped; the receive below waits for it
		_, err := i.ExportedFunction("run").Call(context.Background(), math.MaxUint32, 0)
		ended <- err
	}()
	var took []time.Duration
	for range 20 {
		begin := time.Now()
		runtime.GC()
		took = append(took, time.Since(begin))
	}
	global(t, i, m.Flag).Set(1)
	if err := <-ended; err == nil {
		t.Error("the guest ended by itself")
	}
	t.Logf("a collection beside a guest takes at most %s", slices.Max(took))
	if most := time.Second; slices.Max(took) > most {
		t.Errorf("a collection beside a guest takes %s, more than %s", slices.Max(took), most)
	}
}

// TestFlagBeforeStart checks that a start function is stopped too.
func TestFlagBeforeStart(t *testing.T) {
	code := build(
		vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0}),
		raw(startSection, []byte{0}),
		vector(codeSection, function0(opLoop, noResult, opBr, 0, opEnd)),
	)
	m := instrument(t, code)
	i := instantiate(t, compiler(t), m.Code)
	defer i.Close(context.Background())
	global(t, i, m.Flag).Set(1)
	if _, err := i.ExportedFunction(m.Start).Call(context.Background()); err == nil {
		t.Error("the start function ended by itself")
	}
}
