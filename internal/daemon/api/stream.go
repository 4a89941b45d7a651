package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stream writes an answer piece by piece. A reader that takes nothing for some
// time is cut off, so that it holds nothing here.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	buffer   []byte
}

func (a *API) stream(w http.ResponseWriter, contentType string) *stream {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Accel-Buffering", "no") // a proxy is not to hold it back
	plainHeaders(h)
	return &stream{w: w, control: http.NewResponseController(w), patience: a.config.Patience}
}

// partSize is how many bytes have a limit of their own: a reader of much is slow,
// and not gone, as long as it takes this much in time.
const partSize = 64 << 10

// flush sends what was written. The error says that nobody reads any more.
func (s *stream) flush() error {
	s.limit(s.patience)
	for rest := s.buffer; len(rest) > 0; s.limit(s.patience) {
		n, err := s.w.Write(rest[:min(len(rest), partSize)])
		if rest = rest[n:]; err != nil {
			return err
		}
	}
	s.buffer = s.buffer[:0]
	if cap(s.buffer) > 4*partSize {
		s.buffer = nil // it was for one large event
	}
	return s.control.Flush()
}

// limit sets how long the reader may take; a writer that cannot be limited is
// that of a test.
func (s *stream) limit(d time.Duration) {
	s.control.SetWriteDeadline(time.Now().Add(d)) //nolint:errcheck // see above
}

// close takes the limit back, for what comes next on the connection.
func (s *stream) close() {
	s.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as in limit
}

// event writes one server-sent event, data on one line.
func (s *stream) event(kind, id string, data []byte) {
	if id != "" {
		s.buffer = append(append(append(s.buffer, "id: "...), id...), '\n')
	}
	s.buffer = append(append(append(s.buffer, "event: "...), kind...), "\ndata: "...)
	for len(data) > 0 && data[len(data)-1] == '\n' {
		data = data[:len(data)-1]
	}
	s.buffer = append(append(s.buffer, data...), "\n\n"...)
}

// eventOf writes an event whose data is v as JSON.
func (s *stream) eventOf(kind, id string, v any) error {
	data, err := encode(v)
	if err == nil {
		s.event(kind, id, data)
	}
	return err
}

// comment writes what programs do not read.
func (s *stream) comment(text string) {
	s.buffer = append(append(append(s.buffer, ": "...), text...), "\n\n"...)
}

// gap says that events are missing.
func (s *stream) gap(n uint64) {
	if n == 0 {
		s.comment("gap: events before this may be missing")
		return
	}
	s.comment("gap: " + strconv.FormatUint(n, 10) + " events are missing")
}

// Progress is the data of an event of this name.
type Progress struct {
	Fraction float64 `json:"fraction"`
	Note     string  `json:"note,omitempty"`
}

// wantsEvents reports whether a request asks for a stream of events.
func wantsEvents(r *http.Request) bool {
	for _, v := range r.Header["Accept"] {
		if strings.Contains(v, eventsType) {
			return true
		}
	}
	return false
}
