package trace

import "time"

// spanKind is the kind of a span, with the numbers of OTLP.
type spanKind int8

const (
	kindInternal spanKind = 1
	kindServer   spanKind = 2
	kindConsumer spanKind = 5
)

// span is one timed operation. It must not be changed once it is passed on.
type span struct {
	trace      ID
	id, parent SpanID
	state      string // the caller's tracestate
	name       string
	kind       spanKind
	start, end time.Time
	failed     bool
	message    string // error message of a failed one
	attributes []attribute

	// For a run: the worker, and where to look up when it was started. That happens
	// when the span is sent, because the report that a worker is ready may come after
	// the end of its first task.
	starts   *Starts
	worker   string
	waiting  SpanID    // span of the wait
	accepted time.Time // by the pool
}

// attribute is a key with a value: a text, or else a number.
type attribute struct {
	key    string
	text   string
	number int64
	kind   attributeKind
}

type attributeKind uint8

const (
	isText attributeKind = iota
	isNumber
	isSeconds // number is in nanoseconds, sent as seconds
	isFlag
)

// text adds a text, unless it is empty.
func (s *span) text(key, value string) {
	if value != "" {
		s.attributes = append(s.attributes, attribute{key: key, text: value})
	}
}

func (s *span) number(key string, value int64) {
	s.attributes = append(s.attributes, attribute{key: key, number: value, kind: isNumber})
}

func (s *span) seconds(key string, value time.Duration) {
	s.attributes = append(s.attributes, attribute{key: key, number: int64(value), kind: isSeconds})
}

// flag adds value if it is true.
func (s *span) flag(key string, value bool) {
	if value {
		s.attributes = append(s.attributes, attribute{key: key, number: 1, kind: isFlag})
	}
}

// mostMessage bounds the text of an error in a span.
const mostMessage = 1 << 10

func (s *span) fail(message string) {
	s.failed, s.message = true, short(message)
}

// between sets the times. The clocks of two nodes may differ, so it makes sure that
// the span does not end before it starts.
func (s *span) between(start, end time.Time) {
	if start.IsZero() || start.After(end) {
		start = end
	}
	s.start, s.end = start, end
}

// The keys of attributes.
const (
	keyPool     = "bullpen.pool"
	keyTask     = "bullpen.task"
	keyJob      = "bullpen.job.id"
	keyRun      = "bullpen.run.id"
	keyState    = "bullpen.job.state"
	keyReason   = "bullpen.job.reason"
	keyAttempts = "bullpen.job.attempts"
	keyExisting = "bullpen.job.existing"
	keyPriority = "bullpen.job.priority"
	keyDue      = "bullpen.job.due"
	keyAttempt  = "bullpen.attempt"
	keyAgain    = "bullpen.redelivered"
	keyOutcome  = "bullpen.outcome"
	keyWorker   = "bullpen.worker"
	keyNode     = "bullpen.node"
	keySignal   = "bullpen.worker.signal"
	keyPeak     = "bullpen.worker.memory.peak"
	keyRan      = "bullpen.ran"
	keyPID      = "process.pid"
	keyExit     = "process.exit.code"
	keyError    = "error.type"
	keyMethod   = "http.request.method"
	keyRoute    = "http.route"
	keyStatus   = "http.response.status_code"
)
