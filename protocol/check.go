package protocol

import (
	"math"
	"strconv"
)

// CheckToWorker checks a frame from a host, as far as the frame alone allows: direction,
// number, reason, and bodies that must be empty. It does not check pairs and references;
// their readers do. It costs a few nanoseconds and allocates only for an error.
func CheckToWorker(h Header, body []byte) error {
	switch h.Kind {
	case Task:
		if h.ID == 0 {
			return Invalidf("TASK has number 0")
		}
	case Cancel:
		if h.Code != ReasonTimeout && h.Code != ReasonCanceled {
			return Invalidf("CANCEL with reason %d", h.Code)
		}
		return checkEmpty(h, body)
	case Ping, Drain:
		return checkEmpty(h, body)
	case Hello:
		return checkVersion(h)
	case Result, Error, Returned, Started, Progress, Log, Chunk:
		return Invalidf("%v goes from worker to host", h.Kind)
	default:
		return Invalidf("frame of unknown %v", h.Kind)
	}
	return nil
}

// CheckToHost checks a frame from a worker, as CheckToWorker does for the other direction.
// It does not check whether the task is open, which only the host knows.
func CheckToHost(h Header, body []byte) error {
	switch h.Kind {
	case Result:
	case Error:
		if !workerOutcome(h.Code) {
			return Invalidf("ERROR with outcome %d, which is none of a worker's", h.Code)
		}
	case Returned, Started, Ping, Drain:
		return checkEmpty(h, body)
	case Progress:
		if h.Aux > ProgressWhole {
			return Invalidf("PROGRESS of %d; the whole is %d", h.Aux, ProgressWhole)
		}
	case Log:
		if h.Aux > StreamStderr {
			return Invalidf("LOG from stream %d", h.Aux)
		}
	case Chunk:
		if len(body) == 0 || len(body) > MaxChunk {
			return Invalidf("CHUNK of %d bytes; it has 1 to %d", len(body), MaxChunk)
		}
	case Hello:
		return checkVersion(h)
	case Task, Cancel:
		return Invalidf("%v goes from host to worker", h.Kind)
	default:
		return Invalidf("frame of unknown %v", h.Kind)
	}
	return nil
}

// ProgressWhole is the aux of a PROGRESS for a complete task.
const ProgressWhole = 1000000

// Streams of LOG.
const (
	StreamLog    = 0
	StreamStdout = 1
	StreamStderr = 2
)

// The outcomes that a worker sends in ERROR, as defined in vectors/failures.json.
const (
	OutcomeFailed   = 1
	OutcomePanic    = 2
	OutcomeTimeout  = 3
	OutcomeCanceled = 4
	OutcomeOutput   = 7
)

func workerOutcome(code uint16) bool {
	switch code {
	case OutcomeFailed, OutcomePanic, OutcomeTimeout, OutcomeCanceled, OutcomeOutput:
		return true
	default:
		return false
	}
}

func checkEmpty(h Header, body []byte) error {
	if len(body) > 0 {
		return Invalidf("%v has a body of %d bytes; it has none", h.Kind, len(body))
	}
	return nil
}

func checkVersion(h Header) error {
	if h.Code != Version {
		return Invalidf("HELLO of version %d; this side speaks %d", h.Code, Version)
	}
	return nil
}

// ParseNumber reads a number: only decimal digits, up to 9223372036854775807. name appears
// in the error.
func ParseNumber(name, value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n > math.MaxInt64 {
		return 0, Invalidf("%s is not a number: %q", name, value)
	}
	return n, nil
}
