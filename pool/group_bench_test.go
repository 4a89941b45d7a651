package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

var groupSizes = []int{1, 16, 100, 1024, 4096}

func BenchmarkGroup(b *testing.B) {
	for _, n := range groupSizes {
		b.Run(fmt.Sprintf("chan/%d", n), func(b *testing.B) { benchChannel(b, n) })
		b.Run(fmt.Sprintf("typed/%d", n), func(b *testing.B) {
			f := NewFunc(open(b, Config{Max: 4}), factorial)
			b.ReportAllocs()
			for b.Loop() {
				g := f.Group(context.Background(), GroupConfig{})
				for range n {
					if err := g.Go(50); err != nil {
						b.Fatal(err)
					}
				}
				if r, err := g.Wait(); err != nil || len(r) != n {
					b.Fatal(len(r), err)
				}
			}
			perTask(b, n)
		})
		b.Run(fmt.Sprintf("closures/%d", n), func(b *testing.B) {
			p := open(b, Config{Max: 4})
			fn := func(ctx context.Context) error {
				if r, err := factorial(ctx, 50); r == 1 || err != nil { // so that it is not optimized away
					return errSour
				}
				return nil
			}
			b.ReportAllocs()
			for b.Loop() {
				g := p.Group(context.Background(), GroupConfig{})
				for range n {
					if err := g.Go(fn); err != nil {
						b.Fatal(err)
					}
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
			}
			perTask(b, n)
		})
	}
}

func perTask(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
}

// benchChannel does what a group does by a buffered channel of structs.
func benchChannel(b *testing.B, n int) {
	b.Helper()
	type task struct {
		arg uint64
		to  *uint64
		wg  *sync.WaitGroup
	}
	tasks := make(chan task, DefaultQueue)
	defer close(tasks)
	for range 4 {
		go func() { // ends with the channel, after the benchmark
			for t := range tasks {
				*t.to, _ = factorial(context.Background(), t.arg)
				t.wg.Done()
			}
		}()
	}
	b.ReportAllocs()
	for b.Loop() {
		var wg sync.WaitGroup
		results := make([]uint64, n)
		wg.Add(n)
		for i := range n {
			tasks <- task{50, &results[i], &wg}
		}
		wg.Wait()
	}
	perTask(b, n)
}

// factorial wraps round, as the article's does.
func factorial(_ context.Context, n uint64) (uint64, error) {
	r := uint64(1)
	for i := uint64(2); i <= n; i++ {
		r *= i
	}
	return r, nil
}

func BenchmarkAll(b *testing.B) {
	args := make([]uint64, 1024)
	for i := range args {
		args[i] = 50
	}
	b.Run("direct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			results := make([]uint64, len(args))
			for i, a := range args {
				results[i], _ = factorial(context.Background(), a)
			}
		}
		perTask(b, len(args))
	})
	b.Run("all", func(b *testing.B) {
		f := NewFunc(open(b, Config{Max: 4}), factorial)
		b.ReportAllocs()
		for b.Loop() {
			if r, err := f.All(context.Background(), args); err != nil || len(r) != len(args) {
				b.Fatal(len(r), err)
			}
		}
		perTask(b, len(args))
	})
	b.Run("map", func(b *testing.B) {
		f := NewFunc(open(b, Config{Max: 4}), factorial)
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range f.Map(context.Background(), slices.Values(args)) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != len(args) {
				b.Fatal(n)
			}
		}
		perTask(b, len(args))
	})
}
