package pool

import (
	"context"
	"sync"
	"testing"
)

func fact(_ context.Context, n uint64) (uint64, error) {
	r := uint64(1)
	for i := uint64(2); i <= n; i++ {
		r *= i
	}
	return r, nil
}

// open makes a pool that is closed with the test.
func open(b testing.TB, c Config) *Pool {
	b.Helper()
	p, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

func BenchmarkA(b *testing.B) {
	b.ReportAllocs()
	p := open(b, Config{Max: 4})
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Add(b.N)
	f := wg.Done
	for i := 0; i < b.N; i++ {
		if err := p.Go(ctx, f); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
}

func BenchmarkABatch(b *testing.B) {
	p := open(b, Config{Max: 4})
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Add(b.N)
	fs := make([]func(), 64)
	for i := range fs {
		fs[i] = wg.Done
	}
	for i := 0; i < b.N; i += 64 {
		if _, err := p.GoAll(ctx, fs[:min(64, b.N-i)]); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
}

func BenchmarkB(b *testing.B) {
	p := open(b, Config{Max: 4})
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Add(b.N)
	f := wg.Done
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := p.Go(ctx, f); err != nil {
				b.Error(err)
			}
		}
	})
	wg.Wait()
}

func BenchmarkC(b *testing.B) {
	for _, c := range []struct {
		name string
		c    Config
	}{{"default", Config{Max: 4}}, {"spin", Config{Max: 4, Spin: true}}, {"help", Config{Max: 4, Help: true}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			p := open(b, c.c)
			f := NewFunc(p, fact)
			ctx := context.Background()
			for i := 0; i < b.N; i++ {
				if _, err := f.Call(ctx, 5); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("chan", func(b *testing.B) {
		in, out := make(chan uint64), make(chan uint64, 1)
		for range 4 {
			go func() {
				for v := range in {
					r, _ := fact(bg, v)
					out <- r
				}
			}()
		}
		for i := 0; i < b.N; i++ {
			in <- 5
			<-out
		}
		close(in)
	})
}

func BenchmarkChan(b *testing.B) {
	c := make(chan func(), 1024)
	var wg sync.WaitGroup
	for range 4 {
		go func() {
			for f := range c {
				f()
			}
		}()
	}
	wg.Add(b.N)
	f := wg.Done
	for i := 0; i < b.N; i++ {
		c <- f
	}
	wg.Wait()
	close(c)
}
func BenchmarkChanMany(b *testing.B) {
	c := make(chan func(), 1024)
	var wg sync.WaitGroup
	for range 4 {
		go func() {
			for f := range c {
				f()
			}
		}()
	}
	wg.Add(b.N)
	f := wg.Done
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c <- f
		}
	})
	wg.Wait()
	close(c)
}
