package cli

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/daemon"
)

// reloader reads the configuration again when it is asked to, one time after the
// other. Whoever asks while one reload runs gets one more; more than that are the
// same.
type reloader struct {
	asked chan struct{} // capacity 1; nil before begin
	stop  context.CancelFunc
	ended chan struct{}
}

// begin lets d be reloaded until end.
func (r *reloader) begin(d *daemon.Daemon) {
	r.serve(func(ctx context.Context) {
		_, _ = d.Reload(ctx) // it logs its faults
	})
}

// serve calls reload for who asks, until end.
func (r *reloader) serve(reload func(context.Context)) {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.asked, r.ended = make(chan struct{}, 1), make(chan struct{})
	go func() { // ends by end, which waits for it
		defer close(r.ended)
		for {
			select {
			case <-r.asked:
				reload(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// ask has the configuration read again soon.
func (r *reloader) ask() {
	select {
	case r.asked <- struct{}{}:
	default: // it is going to be
	}
}

// end ends what begin has begun, and a reload under way.
func (r *reloader) end() {
	if r.stop == nil {
		return
	}
	r.stop()
	<-r.ended
}
