package trace

import (
	"context"
	"log/slog"
	"sync"
)

// known holds the traces of tasks that run here, or did so recently, for the log.
type known struct {
	mu   sync.Mutex
	all  map[string]uses    // by the id of the task; guarded by mu
	last [mostLately]string // ring of ids of ended tasks; guarded by mu
	at   int                // next index in the ring; guarded by mu
}

// mostLately is how many ended tasks are kept: their workers' lines may be logged a
// moment later.
const mostLately = 1 << 10

type uses struct {
	trace ID
	n     int // attempts that run or are in the ring
}

func (k *known) begin(id string, trace ID) {
	if id == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = make(map[string]uses)
	}
	k.all[id] = uses{trace, k.all[id].n + 1}
}

func (k *known) end(id string) {
	if id == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	oldest := k.last[k.at]
	k.last[k.at] = id
	k.at = (k.at + 1) % mostLately
	if u := k.all[oldest]; u.n > 1 {
		u.n--
		k.all[oldest] = u
	} else {
		delete(k.all, oldest)
	}
}

func (k *known) of(id string) (ID, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	u, ok := k.all[id]
	return u.trace, ok
}

// Logger returns a logger that adds trace_id to the lines of sampled tasks. Lines
// without a task only cost a look at their attributes.
func (t *Tracer) Logger(l *slog.Logger) *slog.Logger {
	if t == nil {
		return l
	}
	return slog.New(&handler{l.Handler(), t})
}

// handler adds trace_id.
type handler struct {
	slog.Handler

	tracer *Tracer
}

// Handle looks for the id of a task: "id" in lines of workers, "job" in those of the
// queue.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var trace ID
	found := false
	r.Attrs(func(a slog.Attr) bool {
		if (a.Key == "id" || a.Key == "job") && a.Value.Kind() == slog.KindString {
			trace, found = h.tracer.known.of(a.Value.String())
		}
		return !found
	})
	if found {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", trace.String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is as in [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.tracer}
}

// WithGroup is as in [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.tracer}
}
