package executortest

import (
	"context"

	"github.com/bullpen-run/bullpen"
)

var chunkFaults = []fault{
	{"gives pieces and the whole", "Chunks", tasks(func(ctx context.Context, t bullpen.Task) (context.Context, bullpen.Task) {
		if o, ok := t.Observer.(bullpen.ChunkObserver); ok {
			t.Observer = nil
			o.Chunk([]byte("0"))
		}
		return ctx, t
	})},
	{"gives pieces after the outcome", "Chunks", wrapped(func(f *faulty) {
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			o, ok := t.Observer.(bullpen.ChunkObserver)
			if !ok {
				return f.Executor.Submit(ctx, t, done)
			}
			t.Observer = nil
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
				pieces := r.Payload
				r.Payload = nil
				done(r, err)
				o.Chunk(pieces)
			})
		}
	})},
}
