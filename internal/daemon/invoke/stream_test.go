package invoke

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// message is a decoded event.
type message struct {
	headers map[string]string
	payload []byte
}

// decode decodes messages, as the specification of the encoding has them.
func decode(t *testing.T, b []byte) (all []message) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 16 {
			t.Fatalf("%d bytes are left", len(b))
		}
		total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if int(total) > len(b) || headers+16 > total {
			t.Fatalf("a message has %d bytes, %d of them headers, and %d are left", total, headers, len(b))
		}
		if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) || crc32.ChecksumIEEE(b[:total-4]) != binary.BigEndian.Uint32(b[total-4:]) {
			t.Fatal("a checksum is wrong")
		}
		m := message{headers: map[string]string{}, payload: b[12+headers : total-4]}
		for h := b[12 : 12+headers]; len(h) > 0; {
			name := string(h[1 : 1+h[0]])
			h = h[1+h[0]:]
			n := binary.BigEndian.Uint16(h[1:])
			if h[0] != 7 {
				t.Fatalf("%s has the type %d", name, h[0])
			}
			m.headers[name] = string(h[3 : 3+n])
			h = h[3+n:]
		}
		all, b = append(all, m), b[total:]
	}
	return all
}

func TestStream(t *testing.T) {
	t.Parallel()
	h := handlerOf(New(Config{Backend: &stage{}}))
	long := `"` + strings.Repeat("x", chunkBytes) + `"`
	for _, c := range []struct {
		function, body string
		chunks         int
		code           string
	}{{"echo", "{}", 1, ""}, {"echo", long, 2, ""}, {"fails", "1", 0, "ValueError"}} {
		w := request(h, "/2021-11-15/functions/"+c.function+"/response-streaming-invocations", c.body, "X-Amz-Log-Type", "Tail")
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/vnd.amazon.eventstream" || w.Header().Get("X-Amz-Executed-Version") != "$LATEST" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		all := decode(t, w.Body.Bytes())
		last := all[len(all)-1]
		var payload bytes.Buffer
		for _, m := range all[:len(all)-1] {
			payload.Write(m.payload)
			if m.headers[":message-type"] != "event" || m.headers[":event-type"] != "PayloadChunk" || m.headers[":content-type"] != "application/octet-stream" {
				t.Errorf("%v", m.headers)
			}
		}
		var end complete
		if err := json.Unmarshal(last.payload, &end); err != nil {
			t.Fatal(err)
		}
		log, err := base64.StdEncoding.DecodeString(end.LogResult)
		if len(all) != c.chunks+1 || last.headers[":event-type"] != "InvokeComplete" || end.ErrorCode != c.code || err != nil || len(log) != tailBytes {
			t.Errorf("%s: %d messages, the last %v %+v", c.function, len(all), last.headers, end)
		}
		if c.code == "" && payload.String() != c.body || c.code != "" && !strings.Contains(end.ErrorDetails, `"errorType":"ValueError"`) {
			t.Errorf("%s: %d bytes, %s", c.function, payload.Len(), end.ErrorDetails)
		}
	}
	w := request(h, "/2021-11-15/functions/none/response-streaming-invocations", "")
	if w.Code != http.StatusNotFound || w.Header().Get("X-Amzn-ErrorType") != notFound {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := request(h, "/2021-11-15/functions/echo/response-streaming-invocations", "", "X-Amz-Invocation-Type", "Event"); w.Code != http.StatusBadRequest {
		t.Errorf("an event: %d", w.Code)
	}
}

// TestChunkAfterTheEnd: a piece that comes when its task has failed is not written into the
// answer.
func TestChunkAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	o := &streamed{tail: &tail{}, to: &stream{w: w, head: func() {}}}
	o.Chunk([]byte("in time"))
	written := w.Body.Len()
	o.end()
	o.Chunk([]byte("late"))
	if written == 0 || w.Body.Len() != written {
		t.Errorf("%d bytes before the end, %d with what came after it", written, w.Body.Len())
	}
}
