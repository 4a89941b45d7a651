package invoke

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"sync"
)

// chunkBytes is the largest payload of one event; SDKs refuse messages above 16 MiB.
const chunkBytes = 1 << 20

// stream writes the answer of a streaming invocation, in the encoding
// application/vnd.amazon.eventstream. The first event begins the answer.
type stream struct {
	w     http.ResponseWriter
	head  func() // sets the headers of every answer
	begun bool
	buf   []byte
}

// complete is the last event of a stream.
type complete struct {
	ErrorCode    string `json:",omitempty"`
	ErrorDetails string `json:",omitempty"`
	LogResult    string `json:",omitempty"`
}

// chunk sends a part of the result.
func (s *stream) chunk(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), chunkBytes)
		if err := s.event("PayloadChunk", "application/octet-stream", p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// streamed is the observer of a streaming invocation. A result that the function streams is
// sent as it comes: the handler only waits meanwhile. If the caller has gone, its context
// ends the task.
type streamed struct {
	*tail

	mu sync.Mutex
	to *stream // nil once the task has ended; guarded by mu
}

// Chunk sends a piece. It may still be called when a task has failed whose caller is slow.
func (o *streamed) Chunk(piece []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to != nil {
		o.to.chunk(piece) //nolint:errcheck // the caller has gone
	}
}

// end leaves the stream to the handler.
func (o *streamed) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = nil
}

// finish sends the result, unless it was sent in pieces, and the end.
func (s *stream) finish(result []byte, bad *failure, logged string) {
	last := complete{LogResult: logged}
	if bad != nil {
		last.ErrorCode, last.ErrorDetails = bad.Type, string(bad.JSON())
	}
	if s.chunk(result) == nil {
		s.end(last) //nolint:errcheck // the client may be gone
	}
}

// end sends the last event.
func (s *stream) end(c complete) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.event("InvokeComplete", "application/json", text)
}

func (s *stream) event(kind, content string, payload []byte) error {
	if !s.begun {
		s.begun = true
		s.head()
		s.w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		s.w.WriteHeader(http.StatusOK)
	}
	s.buf = appendEvent(s.buf[:0], kind, content, payload)
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// appendEvent appends a message: its length and that of its headers with a checksum,
// the headers, the payload, and a checksum of all.
func appendEvent(b []byte, kind, content string, payload []byte) []byte {
	const prelude, sum = 8, 4
	begin := len(b)
	b = append(b, make([]byte, prelude+sum)...)
	for _, h := range [...][2]string{{":message-type", "event"}, {":event-type", kind}, {":content-type", content}} {
		b = append(append(b, byte(len(h[0]))), h[0]...)
		const text = 7 // the type of a value
		b = binary.BigEndian.AppendUint16(append(b, text), uint16(len(h[1])))
		b = append(b, h[1]...)
	}
	headers := len(b) - begin - prelude - sum
	b = append(b, payload...)
	message := b[begin:]
	binary.BigEndian.PutUint32(message, uint32(len(message)+sum))
	binary.BigEndian.PutUint32(message[4:], uint32(headers))
	binary.BigEndian.PutUint32(message[prelude:], crc32.ChecksumIEEE(message[:prelude]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(message))
}
