package pool

import (
	"context"
	"sync/atomic"
)

type Lane struct{ queue queue }

func (l *Lane) list()    {}
func (l *Lane) release() {}

type readyLanes struct{ n atomic.Int32 }

func (r *readyLanes) take(w *worker) bool { return false }

type delayed struct{}

func (at *placement) putElsewhere(ctx context.Context, h *head, it item) error { return nil }
