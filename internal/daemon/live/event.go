package live

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Place is where in the story of a task an event stands: which attempt, and how
// many events of it came before. It is the id of a server-sent event.
type Place struct {
	Attempt int
	N       uint64
}

// String gives p as ParsePlace reads it: "attempt.n".
func (p Place) String() string { return strconv.Itoa(p.Attempt) + "." + strconv.FormatUint(p.N, 10) }

// After reports whether p stands behind o.
func (p Place) After(o Place) bool {
	return p.Attempt > o.Attempt || p.Attempt == o.Attempt && p.N > o.N
}

// ParsePlace reads what String gives.
func ParsePlace(text string) (Place, error) {
	attempt, n, found := strings.Cut(text, ".")
	a, err := strconv.ParseUint(attempt, 10, 31)
	var m uint64
	if found && err == nil {
		m, err = strconv.ParseUint(n, 10, 64)
	}
	if !found || err != nil {
		return Place{}, fmt.Errorf("%q is no place in a stream of events: give back the id of the last event, such as 1.12", text)
	}
	return Place{Attempt: int(a), N: m}, nil
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	// Began: an attempt was handed to a worker.
	Began Kind = iota + 1
	// Progressed: the handler told how far it is.
	Progressed
	// Logged: the handler logged or printed a line.
	Logged
	// Ended: the attempt has ended; the job may be tried again.
	Ended
)

// Event is one thing that a task which runs here said of itself.
type Event struct {
	Place    Place
	Kind     Kind
	Time     time.Time
	Fraction float64         // of Progressed
	Note     string          // of Progressed
	Line     bullpen.LogLine // of Logged
}

const (
	// eventSize is what an event takes beside its texts, about.
	eventSize = 152
	// longestText is the most that is kept of a line or note.
	longestText = 16 << 10
)

func (e *Event) size() int { return eventSize + len(e.Note) + len(e.Line.Text) }

// cut shortens s to longestText bytes, at the beginning of a character.
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
