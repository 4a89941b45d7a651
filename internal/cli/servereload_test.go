//go:build unix

package cli

import (
	"context"
	"testing"
)

// TestReloader shows that reloads come one after the other, and that of many that are
// asked for while one runs one more comes.
func TestReloader(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	var r reloader
	r.serve(func(ctx context.Context) {
		select {
		case began <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	})
	r.ask()
	<-began
	for range 100 {
		r.ask()
	}
	select {
	case <-began:
		t.Error("two run at a time")
	default:
	}
	goOn <- struct{}{}
	<-began
	goOn <- struct{}{}
	r.ask()
	<-began // of this last one, not of the hundred
	if len(r.asked) != 0 {
		t.Error("there is one more to come, and nobody has asked for it")
	}
	r.end() // with one under way
	var none reloader
	none.end()
}
