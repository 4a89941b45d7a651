package wasm

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bullpen-run/bullpen"
)

// kilobyte is the payload of the figures.
var kilobyte = bytes.Repeat([]byte("x"), 1<<10)

// modes are those of the figures.
var modes = []Mode{Fresh, Restore, Stateless}

// BenchmarkTask runs tasks of a kilobyte in an instance of two pages, from one goroutine and
// from two.
func BenchmarkTask(b *testing.B) {
	for _, mode := range modes {
		for _, goroutines := range []int{1, 2} {
			b.Run(mode.String()+"/"+string(rune('0'+goroutines)), func(b *testing.B) {
				p := open(b, Config{Code: sum().build(), Mode: mode, Max: goroutines})
				perform(b, p, goroutines, bullpen.Task{Name: "x", Payload: kilobyte})
			})
		}
	}
}

// BenchmarkWazero is the same work by wazero alone: the module as it is, without a check, in
// one instance that is called again and again, and in a new one each time with the memory of
// the last.
func BenchmarkWazero(b *testing.B) {
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer func() { _ = r.Close(ctx) }()
	compiled, err := r.CompileModule(ctx, sum().build())
	if err != nil {
		b.Fatal(err)
	}
	m := &memory{bound: most32, keep: keepFree}
	making := experimental.WithMemoryAllocator(ctx, m)
	instance := func() api.Module {
		mod, err := r.InstantiateModule(making, compiled, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			b.Fatal(err)
		}
		return mod
	}
	var stack [2]uint64
	work := func(f api.Function, at uint64) {
		copy(m.buf[at:], kilobyte)
		stack = [2]uint64{at, uint64(len(kilobyte))}
		if err := f.CallWithStack(ctx, stack[:]); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("stateless", func(b *testing.B) {
		mod := instance()
		defer func() { _ = mod.Close(ctx) }()
		for f := mod.ExportedFunction(exportRun); b.Loop(); {
			work(f, 1<<16)
		}
	})
	b.Run("fresh", func(b *testing.B) {
		for b.Loop() {
			mod := instance()
			stack[0] = uint64(len(kilobyte))
			if err := mod.ExportedFunction(exportAlloc).CallWithStack(ctx, stack[:]); err != nil {
				b.Fatal(err)
			}
			work(mod.ExportedFunction(exportRun), stack[0])
			_ = mod.Close(ctx)
		}
	})
}

func perform(b *testing.B, e bullpen.Executor, goroutines int, k bullpen.Task) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	begun := time.Now()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() { // ends after its tasks; perform waits for it
			for i := g; i < b.N; i += goroutines {
				if _, err := bullpen.Execute(context.Background(), e, k); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "tasks/s")
}

// BenchmarkEmpty is a guest that does nothing: by wazero alone, by a pool, and by a pool with
// a timeout.
func BenchmarkEmpty(b *testing.B) {
	p := open(b, Config{Code: nothing().build(), Mode: Stateless, Max: 1})
	k := bullpen.Task{Name: "x"}
	b.Run("wazero", func(b *testing.B) {
		if _, err := p.Execute(context.Background(), k); err != nil {
			b.Fatal(err)
		}
		i := p.idle[0]
		var stack [2]uint64
		for b.Loop() {
			if err := i.run.CallWithStack(&i.ctx, stack[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pool", func(b *testing.B) { perform(b, p, 1, k) })
	b.Run("timeout", func(b *testing.B) {
		k.Limits.Timeout = time.Minute
		perform(b, p, 1, k)
	})
	b.Run("submit", func(b *testing.B) {
		k.Limits.Timeout = 0
		var all sync.WaitGroup
		done := func(_ bullpen.Result, err error) {
			if err != nil {
				b.Error(err)
			}
			all.Done()
		}
		b.ReportAllocs()
		for b.Loop() {
			all.Add(1)
			if err := p.Submit(context.Background(), k, done); err != nil {
				b.Fatal(err)
			}
		}
		all.Wait()
	})
}

// BenchmarkStop is how late guests are stopped that never end.
func BenchmarkStop(b *testing.B) {
	for what, module := range map[string]*builder{"loop": spin(), "recursion": recurse()} {
		b.Run(what, func(b *testing.B) {
			p := open(b, Config{Code: module.build(), Max: 1})
			const timeout = 5 * time.Millisecond
			k := bullpen.Task{Name: "x"}
			k.Limits.Timeout = timeout
			var late []time.Duration
			for b.Loop() {
				begun := time.Now()
				_, err := p.Execute(context.Background(), k)
				late = append(late, time.Since(begun)-timeout)
				if o, _ := bullpen.OutcomeOf(err); o != bullpen.Timeout && what == "loop" {
					b.Fatal(err)
				}
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "µs-late-p50")
			b.ReportMetric(float64(late[(len(late)-1)*99/100].Microseconds()), "µs-late-p99")
		})
	}
}

// BenchmarkCollection is how long a garbage collection takes, alone and while a guest runs
// that never ends.
func BenchmarkCollection(b *testing.B) {
	b.Run("alone", collect)
	p := open(b, Config{Code: spin().build(), Max: 1})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if err := p.Submit(ctx, bullpen.Task{Name: "x"}, func(_ bullpen.Result, err error) { ended <- err }); err != nil {
		b.Fatal(err)
	}
	b.Run("beside", collect)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}

func collect(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		runtime.GC()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds()), "µs-p99")
}

// TestSizeOfAnIdleInstance holds the memory of a warm instance of two pages.
func TestSizeOfAnIdleInstance(t *testing.T) {
	const instances, most = 200, 150_000
	p := open(t, Config{Code: nothing().build(), Mode: Stateless, Min: instances})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	p.mu.Lock()
	for range instances {
		i := p.newInstance()
		c := &call{task: bullpen.Task{Payload: kilobyte}, memory: most32, output: math.MaxInt}
		i.begin()
		i.prepare(c)
		if _, err := i.attempt(); err != nil {
			t.Error(err)
		}
		i.settle(false)
		if err := i.end(); err != nil {
			t.Error(err)
		}
		p.put(i, p.now())
	}
	p.mu.Unlock()
	each := (heap() - before) / instances
	t.Logf("an idle instance of two pages takes %d bytes", each)
	if each > most {
		t.Errorf("an idle instance takes %d bytes, want at most %d", each, most)
	}
}
