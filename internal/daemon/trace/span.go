package trace

import "time"

// spanKind is what a span is to its neighbors, as OTLP numbers it.
type spanKind int8

const (
	kindInternal spanKind = 1
	kindServer   spanKind = 2
	kindConsumer spanKind = 5
)

// span is one thing that took time. It is never changed once it is handed over.
type span struct {
	trace      ID
	id, parent SpanID
	state      string // tracestate of the caller
	name       string
	kind       spanKind
	start, end time.Time
	failed     bool
	message    string // why, of one that failed
	attributes []attribute

	// Of a run: the worker that had it, and who knows when that was started. This is
	// looked up when the span is sent, because a worker's readiness may be told after
	// the end of its first task.
	starts   *Starts
	worker   string
	waiting  SpanID    // the span of its wait
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
	isSeconds // number is of nanoseconds
	isFlag
)

// text adds a text that is not empty.
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

// flag adds what is true.
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

// between sets the times. Clocks of two nodes may differ: a span never ends before
// it starts.
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
