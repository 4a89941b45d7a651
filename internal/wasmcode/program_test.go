package wasmcode

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// goProgram builds testdata/goprogram for wasip1.
func goProgram(t testing.TB) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program.wasm")
	cmd := exec.Command("go", "build", "-o", file, "./testdata/goprogram")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// wasi returns a runtime with WASI preview 1.
func wasi(t testing.TB) wazero.Runtime {
	t.Helper()
	rt := compiler(t)
	wasi_snapshot_preview1.MustInstantiate(context.Background(), rt)
	return rt
}

// runCommand runs a WASI command and returns what it has written, its trap included, and
// its exit code.
func runCommand(t testing.TB, rt wazero.Runtime, c wazero.CompiledModule, args ...string) (string, uint32) {
	t.Helper()
	var out bytes.Buffer
	config := wazero.NewModuleConfig().WithName("").WithArgs(append([]string{"program"}, args...)...).WithStdout(&out).WithStderr(&out)
	i, err := rt.InstantiateModule(context.Background(), c, config)
	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit):
		return out.String(), exit.ExitCode()
	case err != nil:
		trap, _, _ := strings.Cut(err.Error(), "\n")
		return out.String() + trap, 0
	}
	if err := i.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return out.String(), 0
}

func compile(t testing.TB, rt wazero.Runtime, code []byte) wazero.CompiledModule {
	t.Helper()
	c, err := rt.CompileModule(context.Background(), code)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGoProgram runs a Go program with and without checks.
func TestGoProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiling the standard library for wasip1 takes long")
	}
	code := goProgram(t)
	m := instrument(t, code)
	t.Logf("%d bytes, %d with the checks", len(code), len(m.Code))
	if !m.Restorable || len(m.Globals) == 0 {
		t.Errorf("restorable is %v, with %d globals", m.Restorable, len(m.Globals))
	}
	rt := wasi(t)
	before, exit1 := runCommand(t, rt, compile(t, rt, code), "3")
	after, exit2 := runCommand(t, rt, compile(t, rt, m.Code), "3")
	if before != after || exit1 != exit2 || !strings.HasPrefix(before, "2000 ") {
		t.Errorf("it writes %q and exits with %d, and instrumented %q and %d", before, exit1, after, exit2)
	}
}

// TestPrograms runs the programs in wazero's examples that need nothing but WASI.
func TestPrograms(t *testing.T) {
	t.Parallel()
	rt := wasi(t)
	folder := wazeroFolder(t)
	for _, file := range []string{
		"examples/cli/testdata/cli.wasm",
		"imports/wasi_snapshot_preview1/testdata/cargo-wasi/wasi.wasm",
		"imports/wasi_snapshot_preview1/testdata/zig-cc/wasi.wasm",
		"imports/wasi_snapshot_preview1/testdata/zig/wasi.wasm",
		"imports/wasi_snapshot_preview1/testdata/tinygo/wasi.wasm",
		"imports/wasi_snapshot_preview1/testdata/exit_on_start.wasm",
		"imports/wasi_snapshot_preview1/testdata/print_args.wasm",
	} {
		code, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		m := instrument(t, code)
		before, exit1 := runCommand(t, rt, compile(t, rt, code), "ls", ".")
		after, exit2 := runCommand(t, rt, compile(t, rt, m.Code), "ls", ".")
		if before != after || exit1 != exit2 {
			t.Errorf("%s writes %q and exits with %d, and instrumented %q and %d", file, before, exit1, after, exit2)
		}
	}
}

// TestRestore runs a function that changes memory and a global, restores both, and runs it
// again.
func TestRestore(t *testing.T) {
	t.Parallel()
	code := build(
		vector(typeSection, signature(0, 1)), vector(functionSection, []byte{0}),
		vector(memorySection, []byte{0, 1}),
		vector(globalSection, []byte{i32t, 1, opI32Const, 7, opEnd}),
		vector(exportSection, exported("run", Function, 0), exported("memory", MemoryKind, 0)),
		vector(codeSection, function0(
			opI32Const, 8, opI32Const, 8, 0x28, 0, 0, opGlobalGet, 0, opI32Add, 0x36, 0, 0, // memory[8] += global
			opGlobalGet, 0, opI32Const, 1, opI32Add, opGlobalSet, 0,
			opI32Const, 8, 0x28, 0, 0,
		)),
	)
	m := instrument(t, code)
	i := instantiate(t, compiler(t), m.Code)
	view, _ := i.Memory().Read(0, i.Memory().Size())
	image := bytes.Clone(view)
	saved := make([]uint64, len(m.Globals))
	for n, name := range m.Globals {
		saved[n] = global(t, i, name).Get()
	}
	for range 3 {
		r, err := i.ExportedFunction("run").Call(context.Background())
		if err != nil || r[0] != 7 {
			t.Fatalf("run returns %v, error %v, want 7", r, err)
		}
		i.Memory().Write(0, image)
		for n, name := range m.Globals {
			global(t, i, name).Set(saved[n])
		}
	}
}
