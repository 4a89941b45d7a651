package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stream writes an answer piece by piece. It disconnects a reader that accepts no
// data for some time, so that such readers hold no resources.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	buffer   []byte
}

func (a *API) stream(w http.ResponseWriter, contentType string) *stream {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Accel-Buffering", "no") // stops a proxy from buffering the stream
	plainHeaders(h)
	return &stream{w: w, control: http.NewResponseController(w), patience: a.config.Patience}
}

// partSize is how many bytes each write deadline covers: a slow reader of a large
// event is kept as long as it accepts this much in time.
const partSize = 64 << 10

// flush sends the buffer. It returns an error if the client is gone.
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
		s.buffer = nil // drop a buffer that was grown for one large event
	}
	return s.control.Flush()
}

// limit sets the write deadline. Writers in tests may not support one.
func (s *stream) limit(d time.Duration) {
	s.control.SetWriteDeadline(time.Now().Add(d)) //nolint:errcheck // see above
}

// close removes the write deadline for the next answer on the connection.
func (s *stream) close() {
	s.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // as in limit
}

// event writes one server-sent event, with data on one line.
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

// eventOf writes an event with v as JSON.
func (s *stream) eventOf(kind, id string, v any) error {
	data, err := encode(v)
	if err == nil {
		s.event(kind, id, data)
	}
	return err
}

// comment writes a comment, which event parsers ignore.
func (s *stream) comment(text string) {
	s.buffer = append(append(append(s.buffer, ": "...), text...), "\n\n"...)
}

// gap writes a comment that events are missing.
func (s *stream) gap(n uint64) {
	if n == 0 {
		s.comment("gap: events before this may be missing")
		return
	}
	s.comment("gap: " + strconv.FormatUint(n, 10) + " events are missing")
}

// Progress is the data of the event "progress".
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
