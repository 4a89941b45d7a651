package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

// reader reads a stream as one side must: the oracle of malformed.json and of
// FuzzSession. It has no shared memory.
type reader struct {
	worker  bool // reads what goes to a worker, else what goes to a host
	greeted bool
	tasks   int             // handlers of the worker
	open    map[uint32]bool // host: tasks sent and not answered
	chunks  bool            // host: the worker may send CHUNK
	begun   map[uint32]bool // host: tasks with chunks
}

func newReader(to string) *reader {
	return &reader{worker: to == "worker", tasks: hChunks, open: map[uint32]bool{1: true}, chunks: true, begun: map[uint32]bool{}}
}

// read takes all frames of b and says what is wrong with them; a worker also
// minds half a frame at the end.
func (r *reader) read(b []byte) error {
	for {
		h, body, n, _, err := protocol.Split(b, protocol.DefaultFrame)
		if err != nil {
			return err
		}
		if n == 0 {
			if r.worker && len(b) > 0 {
				return protocol.Invalidf("end of file in the middle of a frame")
			}
			return nil
		}
		if err := r.frame(h, body); err != nil {
			return err
		}
		b = b[n:]
	}
}

func (r *reader) frame(h protocol.Header, body []byte) error {
	if !r.greeted {
		r.greeted = true
		var err error
		if r.worker {
			_, err = protocol.ParseHostHello(h, body)
		} else {
			var hello protocol.WorkerHello
			hello, err = protocol.ParseWorkerHello(h, body)
			r.chunks = hello.Chunks
		}
		return err
	}
	check := protocol.CheckToHost
	if r.worker {
		check = protocol.CheckToWorker
	}
	if err := check(h, body); err != nil {
		return err
	}
	switch h.Kind {
	case protocol.Hello:
		return protocol.Invalidf("a second HELLO")
	case protocol.Task:
		return r.task(h, body)
	case protocol.Result, protocol.Error, protocol.Returned, protocol.Started, protocol.Chunk:
		return r.answer(h, body)
	case protocol.Cancel, protocol.Progress, protocol.Log, protocol.Ping, protocol.Drain:
		return nil
	default:
		return protocol.Invalidf("reader met %v, which no check refused", h.Kind)
	}
}

func (r *reader) task(h protocol.Header, body []byte) error {
	if h.Code == 0 || int(h.Code) > r.tasks {
		return protocol.Invalidf("TASK for handler %d, which is unknown", h.Code)
	}
	if h.Flags&protocol.Meta != 0 {
		kv, rest, err := protocol.ParsePairs(body)
		if err != nil {
			return err
		}
		if bound, ok := protocol.Lookup(kv, "bullpen.output"); ok {
			if _, err := protocol.ParseNumber("bullpen.output", bound); err != nil {
				return err
			}
		}
		body = rest
	}
	if h.Flags&protocol.Arena != 0 {
		if _, err := protocol.ParseRequest(body); err != nil {
			return err
		}
		return protocol.Invalidf("an arena reference, and there is no shared memory")
	}
	return nil
}

func (r *reader) answer(h protocol.Header, body []byte) error {
	if !r.open[h.ID] {
		return protocol.Invalidf("%v for task %d, which is not open", h.Kind, h.ID)
	}
	switch h.Kind {
	case protocol.Chunk:
		if !r.chunks {
			return protocol.Invalidf("CHUNK, which HELLO did not announce")
		}
		r.begun[h.ID] = true
	case protocol.Returned:
		if r.begun[h.ID] {
			return protocol.Invalidf("RETURNED for task %d, which has chunks", h.ID)
		}
		delete(r.open, h.ID)
	case protocol.Started:
	default:
		delete(r.open, h.ID)
	}
	if h.Kind == protocol.Error {
		_, err := protocol.ParseAllPairs(body)
		return err
	}
	if h.Kind == protocol.Result && h.Flags&protocol.Arena != 0 {
		if _, err := protocol.ParseReply(body); err != nil {
			return err
		}
		return protocol.Invalidf("an arena reference, and there is no shared memory")
	}
	return nil
}

func TestMalformedStreamsAreRefused(t *testing.T) {
	t.Parallel()
	for _, v := range streamVectors() {
		t.Run(v.To+": "+v.Name, func(t *testing.T) {
			t.Parallel()
			r := newReader(v.To)
			r.greeted = !v.First
			err := r.read(unhex(t, v.Hex))
			var invalid *protocol.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("read without a fault, want %q", v.Fault)
			}
			if !strings.Contains(err.Error(), v.Fault) {
				t.Errorf("fault is %q, want %q", err, v.Fault)
			}
		})
	}
}

// TestSessionsAreWellFormed reads both directions of every session.
func TestSessionsAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, s := range sessionVectors() {
		var sent []byte
		host := newReader("host")
		host.greeted = true
		for _, step := range s.Steps {
			if step.Send != nil {
				sent = append(sent, unhex(t, *step.Send)...)
			}
			if e := step.Expect; e != nil {
				host.open[e.ID] = true
				if e.Kind == protocol.Hello {
					continue
				}
				body := pairs()
				if e.Body != nil {
					body = unhex(t, *e.Body)
				}
				if err := host.frame(protocol.Header{Kind: e.Kind, Flags: e.Flags, Code: e.Code, ID: e.ID}, body); err != nil {
					t.Errorf("%s expects %+v: %v", s.Name, e, err)
				}
			}
		}
		if err := newReader("worker").read(sent); err != nil {
			t.Errorf("%s: the host breaks the protocol: %v", s.Name, err)
		}
	}
}
