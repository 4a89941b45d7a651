// Package frames is the host's side of the worker protocol in protocol/SPEC.md: hello,
// tasks and answers, with large payloads in shared memory.
package frames

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// Session is the codec of one worker.
type Session struct {
	memory         []byte
	page           *protocol.Page
	request, reply protocol.Part
	limit          uint32 // longest accepted body
	freed          uint64 // reply bytes given back; used by the decoder

	worker atomic.Pointer[Hello] // the worker's hello; nil before it

	mu    sync.Mutex
	parts extents // guarded by mu
}

// Hello is what a worker reports about itself.
type Hello struct {
	protocol.WorkerHello
	Handlers map[string]uint16 // numbers by name
	Any      uint16            // the handler named "*", 0 for none
}

// New returns the codec of a worker with this shared memory, which may be nil, and this
// bound on the body of a frame.
func New(memory []byte, limit uint32) (*Session, error) {
	s := &Session{memory: memory, limit: limit}
	if memory == nil {
		return s, nil
	}
	page, err := protocol.NewPage(memory)
	if err != nil {
		return nil, err
	}
	page.Init()
	s.page = page
	// Both parts begin at a page boundary, so that touching one leaves the other cold.
	half := uint64(len(memory)-protocol.PageSize) / 2 &^ (protocol.PageSize - 1)
	s.request = protocol.Part{Offset: protocol.PageSize, Length: half}
	s.reply = protocol.Part{Offset: protocol.PageSize + half, Length: half}
	return s, nil
}

// Page returns the shared page if both sides use it, nil otherwise.
func (s *Session) Page() *protocol.Page {
	if h := s.worker.Load(); h != nil && h.Page {
		return s.page
	}
	return nil
}

// AppendHello appends the host's first frame.
func (s *Session) AppendHello(out []byte, worker string, pid, output int) []byte {
	return protocol.HostHello{
		Worker: worker, PID: pid, MaxFrame: s.limit, Output: uint64(output), Request: s.request, Reply: s.reply, Chunks: true,
	}.Append(out)
}

// TakeHello decodes the worker's first message.
func (s *Session) TakeHello(m wire.Message) (*Hello, error) {
	if m.Kind != protocol.Hello {
		return nil, protocol.Invalidf("the first frame is %v, not HELLO", m.Kind)
	}
	said, err := protocol.ParseWorkerHello(protocol.Header{Kind: m.Kind, Code: m.Code}, m.Body)
	if err != nil {
		return nil, err
	}
	h := &Hello{WorkerHello: said, Handlers: make(map[string]uint16, len(said.Tasks))}
	for i, name := range h.Tasks {
		h.Handlers[name] = uint16(i + 1)
	}
	h.Any = h.Handlers["*"]
	h.Concurrency = max(h.Concurrency, 1)
	if h.MaxFrame == 0 {
		h.MaxFrame = protocol.DefaultFrame
	}
	if s.memory == nil {
		h.Page, h.Arena = false, false
	}
	if !h.Page {
		h.Ask = 0
	}
	s.worker.Store(h)
	return h, nil
}

// Check returns why t cannot be sent to the worker. It may be called from any goroutine.
func (s *Session) Check(t *bullpen.Task) error {
	if h := s.worker.Load(); h != nil {
		return h.Check(t)
	}
	return nil
}

// Check returns why the worker has no handler for t.
func (h *Hello) Check(t *bullpen.Task) error {
	if number, _ := h.number(t.Name); number == 0 {
		return fmt.Errorf("%w: this worker has no handler %q; it has %s", bullpen.ErrUnknownTask, t.Name, h.names())
	}
	return nil
}

// number returns the handler for a name, 0 for none. A task without a name goes to a
// worker's only handler. byName means that the handler takes any task and must be given
// the name.
func (h *Hello) number(name string) (number uint16, byName bool) {
	if number, ok := h.Handlers[name]; ok {
		return number, false
	}
	if name == "" && len(h.Handlers) == 1 {
		return 1, false
	}
	return h.Any, h.Any != 0
}

func (h *Hello) names() string {
	names := make([]string, 0, len(h.Handlers))
	for name := range h.Handlers {
		names = append(names, strconv.Quote(name))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// AppendTask appends a TASK frame. A large payload is placed in the arena if there is
// room.
func (s *Session) AppendTask(out []byte, t wire.Task) []byte {
	h := s.worker.Load()
	number, byName := h.number(t.Task.Name)
	head := protocol.Header{Kind: protocol.Task, ID: t.Number, Code: number}
	if t.Timeout > 0 {
		if us, ok := protocol.Micros(t.Timeout); ok {
			head.Flags |= protocol.Timeout
			head.Aux = us
		}
	}
	start := len(out)
	out = protocol.AppendHeader(out, head)
	if byName || t.Task.ID != "" || len(t.Task.Meta) > 0 || t.Output > 0 {
		head.Flags |= protocol.Meta
		out = appendMeta(out, t, byName)
	}
	if ref, ok := s.intoArena(h, t); ok {
		head.Flags |= protocol.Arena
		out = ref.AppendRequest(out)
	} else {
		out = append(out, t.Task.Payload...)
	}
	head.Length = uint32(len(out) - start - protocol.HeaderSize)
	protocol.AppendHeader(out[:start], head)
	return out
}

func appendMeta(out []byte, t wire.Task, byName bool) []byte {
	count := len(t.Task.Meta)
	if byName {
		count++
	}
	if t.Task.ID != "" {
		count++
	}
	if t.Output > 0 {
		count++
	}
	out = protocol.BeginPairs(out, count)
	for k, v := range t.Task.Meta {
		out = protocol.AppendPair(out, k, v)
	}
	if byName {
		out = protocol.AppendPair(out, "bullpen.name", t.Task.Name)
	}
	if t.Task.ID != "" {
		out = protocol.AppendPair(out, "bullpen.id", t.Task.ID)
	}
	if t.Output > 0 {
		out = protocol.AppendPair(out, "bullpen.output", strconv.Itoa(t.Output))
	}
	return out
}

// intoArena copies a large payload into the arena.
func (s *Session) intoArena(h *Hello, t wire.Task) (protocol.Reference, bool) {
	n := len(t.Task.Payload)
	if !h.Arena || n < protocol.ArenaMin {
		return protocol.Reference{}, false
	}
	s.mu.Lock()
	at, ok := s.parts.take(t.Number, uint64(n), s.request.Length)
	s.mu.Unlock()
	if !ok {
		return protocol.Reference{}, false
	}
	ref := protocol.Reference{Offset: s.request.Offset + at, Length: uint64(n)}
	copy(s.memory[ref.Offset:], t.Task.Payload)
	return ref, true
}

// AppendCancel appends a CANCEL frame.
func (s *Session) AppendCancel(out []byte, number uint32, reason uint16) []byte {
	return protocol.AppendHeader(out, protocol.Header{Kind: protocol.Cancel, Code: reason, ID: number})
}

// AppendPing appends a PING frame.
func (s *Session) AppendPing(out []byte, aux uint32) []byte {
	return protocol.AppendHeader(out, protocol.Header{Kind: protocol.Ping, Aux: aux})
}

// AppendPong appends the answer to a PING.
func (s *Session) AppendPong(out []byte, aux uint32) []byte {
	return protocol.AppendHeader(out, protocol.Header{Kind: protocol.Ping, Flags: protocol.Ack, Aux: aux})
}

// AppendDrain appends a DRAIN frame.
func (s *Session) AppendDrain(out []byte) []byte {
	return protocol.AppendHeader(out, protocol.Header{Kind: protocol.Drain})
}

// Next splits off the first frame of in and finds its payload. n is 0 if in holds no
// complete frame; need is then its size in bytes, as far as is known.
func (s *Session) Next(in []byte) (m wire.Message, n, need int, err error) {
	h, body, n, need, err := protocol.Split(in, s.limit)
	if n == 0 || err != nil {
		return m, 0, need, err
	}
	if err := protocol.CheckToHost(h, body); err != nil {
		return m, 0, 0, err
	}
	m = wire.Message{Kind: h.Kind, Flags: h.Flags, Code: h.Code, Number: h.ID, Aux: h.Aux, Body: body}
	switch {
	case h.Kind == protocol.Result && h.Flags&protocol.Arena != 0:
		err = s.find(&m)
	case h.Kind == protocol.Error:
		_, err = protocol.ParseAllPairs(body) // rare; callers that need them parse again
	}
	if err != nil {
		return m, 0, 0, err
	}
	return m, n, need, nil
}

// find sets the body of m to the bytes in shared memory that it refers to.
func (s *Session) find(m *wire.Message) error {
	if h := s.worker.Load(); h == nil || !h.Arena {
		return protocol.Invalidf("RESULT has the flag ARENA, which HELLO did not announce")
	}
	ref, err := protocol.ParseReply(m.Body)
	if err != nil {
		return err
	}
	if ref.Taken < s.freed || ref.Taken-s.freed > 2*s.reply.Length {
		return protocol.Invalidf("RESULT has taken %d bytes of the arena, %d were given back", ref.Taken, s.freed)
	}
	m.Body, err = s.reply.Slice(s.memory, ref)
	m.Taken = ref.Taken
	s.freed = ref.Taken
	return err
}

// Answered frees the task's place in the arena. It is called once per answered task.
func (s *Session) Answered(number uint32) {
	s.mu.Lock()
	s.parts.give(number)
	s.mu.Unlock()
}

// Release notifies the worker that a reply has been copied out.
func (s *Session) Release(taken uint64) {
	if taken != 0 {
		s.page.Free(taken)
	}
}
