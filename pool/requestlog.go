package pool

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// requestIDs holds the IDs of the task that an instance currently serves.
type requestIDs struct{ attrs atomic.Pointer[[]slog.Attr] }

// requestHandler adds the current IDs to each record.
type requestHandler struct {
	slog.Handler
	ids *requestIDs
}

func (h requestHandler) Handle(ctx context.Context, r slog.Record) error {
	if attrs := h.ids.attrs.Load(); attrs != nil {
		r = r.Clone()
		r.AddAttrs(*attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs), h.ids}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name), h.ids}
}
