package trace

import (
	"context"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Tracer creates spans and sends them. A nil Tracer does nothing. All methods are
// safe for concurrent use.
type Tracer struct {
	exporter *exporter
	sampler  sampler
	node     string
	known    known
}

// New starts a Tracer; nil if c has no endpoint. It must be ended with Close. The
// error lists all faults of c.
func New(c Config) (*Tracer, error) {
	if c.Traces.Endpoint == "" {
		return nil, nil //nolint:nilnil // no traces are no error
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	c = c.withDefaults()
	return &Tracer{exporter: newExporter(c), sampler: newSampler(c.Traces.Sample), node: c.Node}, nil
}

// Close refuses further spans, sends the waiting ones until ctx ends, and drops the
// rest.
func (t *Tracer) Close(ctx context.Context) {
	if t != nil {
		t.exporter.close(ctx)
	}
}

// Counts returns the numbers of spans by result.
func (t *Tracer) Counts() Counts {
	if t == nil {
		return Counts{}
	}
	return t.exporter.counts()
}

// The metadata keys that carry a context.
const (
	metaParent = "traceparent"
	metaState  = "tracestate"
)

// position is where a job's or task's spans are in a trace.
type position struct {
	Context        // its own span, the parent of the others
	above   SpanID // the caller's span; none for a trace of its own
	state   string
}

// job returns the position of a job.
func (t *Tracer) job(id string, meta map[string]string) position {
	c, ok := Parse(meta[metaParent])
	if ok && !c.Sampled {
		return position{Context: c}
	}
	own, span := jobSpan(id)
	if ok {
		return position{Context{c.Trace, span, c.Sampled}, c.Span, meta[metaState]}
	}
	return position{Context: Context{own, span, t.sampler.takes(own)}}
}

// task returns the position of an ephemeral task, whose spans are below the caller's.
func (t *Tracer) task(meta map[string]string) position {
	if c, ok := Parse(meta[metaParent]); ok {
		return position{Context: c, state: meta[metaState]}
	}
	own := newID()
	return position{Context: Context{Trace: own, Sampled: t.sampler.takes(own)}}
}

// position returns the position of a job or an ephemeral task.
func (t *Tracer) position(job bool, of *bullpen.Task) position {
	if job {
		return t.job(of.ID, of.Meta)
	}
	return t.task(of.Meta)
}

// below returns a new span below that of p.
func (p *position) below(name string, kind spanKind) span {
	return span{trace: p.Trace, id: newSpanID(), parent: p.Span, state: p.state, name: name, kind: kind, attributes: make([]attribute, 0, 16)}
}

// named returns the name of a span: the operation and the task.
func named(what, task string) string {
	if task == "" {
		return what
	}
	return what + " " + task
}

// outcomeWord returns the word for an outcome.
func outcomeWord(o bullpen.Outcome, started bool) string {
	if !started {
		return "never_started"
	}
	return o.String()
}

// instant formats t; empty for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
