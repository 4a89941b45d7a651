package wasmcode

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	i32t = 0x7f
	i64t = 0x7e
)

// build puts a module together.
func build(sections ...[]byte) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		b = append(b, s...)
	}
	return b
}

// vector returns a section with entries.
func vector(id byte, entries ...[]byte) []byte {
	b := appendU32(nil, uint32(len(entries)))
	for _, e := range entries {
		b = append(b, e...)
	}
	return raw(id, b)
}

func raw(id byte, content []byte) []byte {
	return append(appendU32([]byte{id}, uint32(len(content))), content...)
}

func custom(name string, content ...byte) []byte {
	return raw(customSection, append(appendName(nil, name), content...))
}

// signature returns a type with so many i32 parameters and results.
func signature(params, results int) []byte {
	b := []byte{0x60, byte(params)}
	for range params {
		b = append(b, i32t)
	}
	b = append(b, byte(results))
	for range results {
		b = append(b, i32t)
	}
	return b
}

// exported returns an export.
func exported(name string, kind Kind, index byte) []byte {
	return append(appendName(nil, name), byte(kind), index)
}

// function0 returns the code of a function without locals; the end is added.
func function0(code ...byte) []byte { return functionWith([]byte{0}, code...) }

func functionWith(locals []byte, code ...byte) []byte {
	b := append(append([]byte{}, locals...), code...)
	b = append(b, opEnd)
	return append(appendU32(nil, uint32(len(b))), b...)
}

// runFunction returns a module that exports one function as run, and its memory of two pages.
func runFunction(params, results int, code ...byte) []byte {
	return build(
		vector(typeSection, signature(params, results)),
		vector(functionSection, []byte{0}),
		vector(memorySection, []byte{0, 2}),
		vector(exportSection, exported("run", Function, 0), exported("memory", MemoryKind, 0)),
		vector(codeSection, function0(code...)),
	)
}

// endless has a loop without end.
func endless() []byte { return runFunction(0, 0, opLoop, noResult, opBr, 0, opEnd) }

func compiler(t testing.TB) wazero.Runtime {
	t.Helper()
	return runtimeWith(t, wazero.NewRuntimeConfigCompiler())
}

func interpreter(t testing.TB) wazero.Runtime {
	t.Helper()
	return runtimeWith(t, wazero.NewRuntimeConfigInterpreter())
}

func runtimeWith(t testing.TB, c wazero.RuntimeConfig) wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, c)
	t.Cleanup(func() {
		if err := rt.Close(ctx); err != nil {
			t.Errorf("closing the runtime: %v", err)
		}
	})
	return rt
}

func instrument(t testing.TB, code []byte) *Module {
	t.Helper()
	m, err := Instrument(code)
	if err != nil {
		t.Fatalf("Instrument: %v", err)
	}
	return m
}

// instantiate returns an instance without a name and with nothing started.
func instantiate(t testing.TB, rt wazero.Runtime, code []byte) api.Module {
	t.Helper()
	i, err := rt.InstantiateWithConfig(context.Background(), code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiating: %v", err)
	}
	return i
}

func global(t testing.TB, i api.Module, name string) api.MutableGlobal {
	t.Helper()
	g, ok := i.ExportedGlobal(name).(api.MutableGlobal)
	if !ok {
		t.Fatalf("there is no mutable global %q", name)
	}
	return g
}
