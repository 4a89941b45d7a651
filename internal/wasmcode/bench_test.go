package wasmcode

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
)

// loops are the loops whose cost a check changes most.
func loops() map[string][]byte {
	counted := func(body ...byte) []byte {
		code := append([]byte{opLoop, noResult}, body...)
		code = append(code, opLocalGet, 0, opI32Const, 1, opI32Sub, 0x22, 0, opBrIf, 0, opEnd, opLocalGet, 1)
		return build(
			vector(typeSection, signature(2, 1)), vector(functionSection, []byte{0}),
			vector(memorySection, []byte{0, 2}),
			vector(exportSection, exported("run", Function, 0)),
			vector(codeSection, function0(code...)),
		)
	}
	return map[string][]byte{
		"empty":    counted(),
		"multiply": counted(opLocalGet, 1, opI32Const, 33, 0x6c, opI32Const, 7, opI32Add, opLocalSet, 1),
		"bytes": counted(opLocalGet, 1, opLocalGet, 0, opI32Const, 0xff, 0xff, 0x03, 0x71, 0x2d, 0, 0, opI32Add,
			opLocalSet, 1), // sums memory[n & 0xffff]
	}
}

// BenchmarkLoop measures an iteration of small loops with and without checks.
func BenchmarkLoop(b *testing.B) {
	for name, code := range loops() {
		for _, v := range variants(b, code) {
			b.Run(name+"/"+v.name, func(b *testing.B) {
				run := instantiate(b, compiler(b), v.code).ExportedFunction("run")
				const iterations = 1_000_000
				for b.Loop() {
					if _, err := run.Call(context.Background(), iterations, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/iterations, "ns/iteration")
			})
		}
	}
}

type variant struct {
	name string
	code []byte
}

func variants(b *testing.B, code []byte) []variant {
	b.Helper()
	return []variant{{"plain", code}, {"checked", instrument(b, code).Code}}
}

// BenchmarkCalls measures a recursive function of few instructions.
func BenchmarkCalls(b *testing.B) {
	code := build(
		vector(typeSection, signature(1, 1)), vector(functionSection, []byte{0}),
		vector(exportSection, exported("run", Function, 0)),
		vector(codeSection, function0(
			opLocalGet, 0, opI32Const, 2, 0x49, opIf, i32t, opLocalGet, 0, opElse, // n < 2
			opLocalGet, 0, opI32Const, 1, opI32Sub, opCall, 0,
			opLocalGet, 0, opI32Const, 2, opI32Sub, opCall, 0, opI32Add, opEnd)),
	)
	for _, v := range variants(b, code) {
		b.Run(v.name, func(b *testing.B) {
			run := instantiate(b, compiler(b), v.code).ExportedFunction("run")
			for b.Loop() {
				if _, err := run.Call(context.Background(), 27); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/832_040, "ns/call")
		})
	}
}

// BenchmarkGoProgram runs a Go program with and without checks.
func BenchmarkGoProgram(b *testing.B) {
	code := goProgram(b)
	for _, v := range variants(b, code) {
		b.Run(v.name, func(b *testing.B) { benchmarkProgram(b, wasi(b), v.code) })
	}
}

func benchmarkProgram(b *testing.B, rt wazero.Runtime, code []byte) {
	b.Helper()
	c := compile(b, rt, code)
	for b.Loop() {
		runCommand(b, rt, c, "5")
	}
}

// BenchmarkInstrument measures the rewriting of a Go program.
func BenchmarkInstrument(b *testing.B) {
	code := goProgram(b)
	b.SetBytes(int64(len(code)))
	b.ReportAllocs()
	for b.Loop() {
		instrument(b, code)
	}
}

// BenchmarkCompile measures the compiling of a Go program with and without checks.
func BenchmarkCompile(b *testing.B) {
	for _, v := range variants(b, goProgram(b)) {
		b.Run(v.name, func(b *testing.B) {
			for b.Loop() {
				rt := compiler(b)
				if err := compile(b, rt, v.code).Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStop measures how long a guest runs on after its flag is set.
func BenchmarkStop(b *testing.B) {
	for name, code := range endlessGuests() {
		b.Run(name, func(b *testing.B) {
			m := instrument(b, code)
			rt := compiler(b)
			c := compile(b, rt, m.Code)
			var took []time.Duration
			for b.Loop() {
				i, err := rt.InstantiateModule(context.Background(), c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, stopAfter(b, m, i, 2*time.Millisecond))
				if err := i.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			report(b, took)
		})
	}
}

// BenchmarkCollection measures a collection that begins while a guest runs.
func BenchmarkCollection(b *testing.B) {
	m := instrument(b, endless())
	i := instantiate(b, compiler(b), m.Code)
	ended := make(chan struct{})
	go func() { // ends when the guest is stopped; the receive below waits for it
		defer close(ended)
		_, _ = i.ExportedFunction("run").Call(context.Background())
	}()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		runtime.GC()
		took = append(took, time.Since(begin))
	}
	global(b, i, m.Flag).Set(1)
	<-ended
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for name, share := range map[string]int{"p50-us": 50, "p99-us": 99, "max-us": 100} {
		at := min(len(took)*share/100, len(took)-1)
		b.ReportMetric(float64(took[at].Nanoseconds())/1000, name)
	}
}
