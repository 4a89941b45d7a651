package bullpen_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
)

// pieces is an observer that keeps a result in pieces.
type pieces struct{ all []string }

func (*pieces) Progress(float64, string) {}
func (*pieces) Log(bullpen.LogLine)      {}
func (p *pieces) Chunk(piece []byte)     { p.all = append(p.all, string(piece)) }

func TestStream(t *testing.T) {
	t.Parallel()
	fails := errors.New("in the middle")
	write := func(texts ...string) func(context.Context, bullpen.Task, io.Writer) error {
		return func(_ context.Context, _ bullpen.Task, w io.Writer) error {
			for _, text := range texts {
				if text == "fail" {
					return fails
				}
				if n, err := io.WriteString(w, text); err != nil || n != len(text) {
					return err
				}
			}
			return nil
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // of one case
		texts  []string
		output int
		want   []string
		err    error
	}{
		{"nothing", t.Context(), nil, 0, nil, nil},
		{"pieces", t.Context(), []string{"a", "", "bc"}, 0, []string{"a", "bc"}, nil},
		{"just the limit", t.Context(), []string{"a", "bc"}, 3, []string{"a", "bc"}, nil},
		{"more than the limit", t.Context(), []string{"a", "bc", "d"}, 3, []string{"a", "bc"}, bullpen.ErrOutput},
		{"a failure", t.Context(), []string{"a", "fail"}, 0, []string{"a"}, fails},
		{"a context that has ended", ended, []string{"a"}, 0, nil, context.Canceled},
	} {
		handler := bullpen.Stream(write(c.texts...))
		task := bullpen.Task{Limits: bullpen.Limits{Output: c.output}}
		whole, err := handler(c.ctx, task)
		if !errors.Is(err, c.err) || err == nil && string(whole) != strings.Join(c.want, "") || err != nil && whole != nil {
			t.Errorf("%s, collected: %q, %v", c.name, whole, err)
		}
		got := &pieces{}
		task.Observer = got
		rest, err := handler(c.ctx, task)
		if !errors.Is(err, c.err) || len(rest) > 0 || !slices.Equal(got.all, c.want) {
			t.Errorf("%s: %q and %q, %v", c.name, got.all, rest, err)
		}
	}
}
