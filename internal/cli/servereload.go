package cli

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/daemon"
)

// reloader reloads the configuration on request, one reload at a time. Requests
// during a reload lead to one more.
type reloader struct {
	asked chan struct{} // capacity 1; nil before begin
	stop  context.CancelFunc
	ended chan struct{}
}

// begin starts to serve reload requests for d, until end.
func (r *reloader) begin(d *daemon.Daemon) {
	r.serve(func(ctx context.Context) {
		_, _ = d.Reload(ctx) // Reload logs its faults
	})
}

// serve calls reload for each request, until end.
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

// ask requests a reload.
func (r *reloader) ask() {
	select {
	case r.asked <- struct{}{}:
	default: // already requested
	}
}

// end ends what begin has started, and a reload in progress.
func (r *reloader) end() {
	if r.stop == nil {
		return
	}
	r.stop()
	<-r.ended
}
