//go:build !race

package bullpen_test

import (
	"context"
	"testing"

	"github.com/bullpen-run/bullpen"
)

func TestInlineAllocatesNothing(t *testing.T) {
	e := one(t, func(ctx context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, ctx.Err() })
	canceled, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := func(bullpen.Result, error) {}
	for name, ctx := range map[string]context.Context{"background": context.Background(), "a context that can end": canceled} {
		if n := testing.AllocsPerRun(1000, func() { _, _ = e.Execute(ctx, bullpen.Task{}) }); n > 0 { // it succeeds
			t.Errorf("Execute with %s allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { _ = e.Submit(ctx, bullpen.Task{}, done) }); n > 0 { // as above
			t.Errorf("Submit with %s allocates %v times", name, n)
		}
	}
}

func BenchmarkInline(b *testing.B) {
	e := one(b, echo)
	task := bullpen.Task{Payload: []byte("x")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Execute(b.Context(), task); err != nil {
			b.Fatal(err)
		}
	}
}
