package live

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/feed"
)

// Position is the position of an event of a task: the attempt, and the number of events
// before it. It is the id of a server-sent event.
type Position struct {
	Attempt int
	N       uint64
}

// String formats p for ParsePosition: "attempt.n".
func (p Position) String() string { return strconv.Itoa(p.Attempt) + "." + strconv.FormatUint(p.N, 10) }

// After reports whether p is after o.
func (p Position) After(o Position) bool {
	return p.Attempt > o.Attempt || p.Attempt == o.Attempt && p.N > o.N
}

// ParsePosition parses the output of String.
func ParsePosition(text string) (Position, error) {
	attempt, n, found := strings.Cut(text, ".")
	a, err := strconv.ParseUint(attempt, 10, 31)
	var m uint64
	if found && err == nil {
		m, err = strconv.ParseUint(n, 10, 64)
	}
	if !found || err != nil {
		return Position{}, fmt.Errorf("%q is not a position in an event stream: send the id of the last event, such as 1.12", text)
	}
	return Position{Attempt: int(a), N: m}, nil
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	// Began: an attempt was given to a worker.
	Began Kind = iota + 1
	// Progressed: the handler reported progress.
	Progressed
	// Logged: the handler logged or printed a line.
	Logged
	// Ended: the attempt has ended; the job may be retried.
	Ended
)

// Event is an event of a task that runs here.
type Event struct {
	Position Position
	Kind     Kind
	Time     time.Time
	Fraction float64         // of Progressed
	Note     string          // of Progressed
	Line     bullpen.LogLine // of Logged
}

// Feed delivers the events of one task as they happen. Its end is the end of the attempt.
type Feed = feed.Feed[Event]

const (
	// eventSize is the approximate size of an event without its texts, in bytes.
	eventSize = 152
	// longestText is the maximum length of a stored line or note, in bytes.
	longestText = 16 << 10
)

func (e *Event) size() int { return eventSize + len(e.Note) + len(e.Line.Text) }

// cut shortens s to longestText bytes, at a character boundary.
func cut(s string) string {
	if len(s) <= longestText {
		return s
	}
	most := longestText
	for most > 0 && s[most]&0xc0 == 0x80 {
		most--
	}
	return s[:most]
}
