package worker

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// sdk is the name of this package in HELLO.
const sdk = "go/0.1"

// session is a worker's session with its host. Its fields do not change after take, except
// those that are safe for concurrent use by themselves.
type session struct {
	names       []string
	handlers    []bullpen.Handler // in the order of their numbers
	concurrency int
	level       slog.Leveler
	frames      *frames // used by the reading goroutine
	answers     *answers
	memory      []byte
	page        *protocol.Page // nil without shared memory
	request     protocol.Part
	output      uint64 // maximum size of results, 0 for no limit
	maxFrame    int    // the longest body that the host accepts
	chunks      bool   // the host accepts a result in pieces
	base        time.Time
	// current is the running task, for the goroutine that the signal wakes. It is nil if no
	// task runs, and always with concurrency above 1.
	current atomic.Pointer[taskContext]
}

func newSession(c Config, names []string, in io.Reader, out io.Writer, memory []byte) (*session, error) {
	s := &session{names: names, concurrency: max(1, c.Concurrency), level: c.Level,
		frames: newFrames(in), answers: newAnswers(out), memory: memory, base: time.Now()}
	for _, name := range names {
		s.handlers = append(s.handlers, c.Handlers[name])
	}
	if s.level == nil {
		s.level = slog.LevelInfo
	}
	if memory != nil {
		page, err := protocol.NewPage(memory)
		if err != nil {
			return nil, err
		}
		if !page.Valid() {
			return nil, protocol.Invalidf("the shared memory has no page of this protocol")
		}
		s.page = page
	}
	return s, nil
}

// now returns the time on the session's clock.
func (s *session) now() time.Duration { return time.Since(s.base) }

// serve runs the session until it ends. A nil error means that it ended normally.
func (s *session) serve() error {
	hello, err := s.receiveHello()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if err := s.take(hello); err != nil {
		return err
	}
	mine := protocol.WorkerHello{SDK: sdk, Tasks: s.names, Concurrency: s.concurrency,
		Page: s.page != nil, Arena: s.answers.memory != nil, Chunks: s.chunks}
	if s.page != nil && s.concurrency == 1 && askSignal != nil {
		mine.Ask = signalNumber
		defer s.listen()()
	}
	s.answers.addHello(mine)
	if err := s.answers.flush(); err != nil {
		return err
	}
	if s.concurrency > 1 {
		return newConcurrent(s).serve()
	}
	return newSerial(s).serve()
}

// receiveHello waits for the host's first frame and parses it.
func (s *session) receiveHello() (protocol.HostHello, error) {
	for {
		h, body, ok, err := s.frames.next()
		if err != nil {
			return protocol.HostHello{}, err
		}
		if ok {
			return protocol.ParseHostHello(h, body)
		}
		if err := s.frames.fill(); err != nil {
			return protocol.HostHello{}, err
		}
	}
}

// take stores the settings of the host's HELLO.
func (s *session) take(hello protocol.HostHello) error {
	s.output, s.chunks = hello.Output, hello.Chunks
	s.maxFrame = protocol.DefaultFrame
	if hello.MaxFrame != 0 {
		s.maxFrame = int(hello.MaxFrame)
	}
	if s.memory == nil || hello.Request.Length == 0 && hello.Reply.Length == 0 {
		return nil
	}
	for _, p := range []protocol.Part{hello.Request, hello.Reply} {
		whole := protocol.Reference{Offset: p.Offset, Length: p.Length}
		if _, err := p.Slice(s.memory, whole); err != nil || p.Offset < protocol.PageSize {
			return protocol.Invalidf("the part %q of the arena does not lie between the page and the end of the shared memory (%d bytes)",
				p, len(s.memory))
		}
	}
	s.request = hello.Request
	s.answers.memory, s.answers.page = s.memory, s.page
	s.answers.ring.Part = hello.Reply
	return nil
}

// listen starts the goroutine that the signal wakes, and returns a function that ends it.
func (s *session) listen() (end func()) {
	wake, quit, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(wake, askSignal)
	go func() { // started by serve, ends with quit; serve waits for it
		defer close(ended)
		for {
			select {
			case <-wake:
				s.asked()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		// The signal stays caught, so that a late one does no harm.
		close(quit)
		<-ended
	}
}

// asked ends the running task if the host has asked for it, and always writes the collected
// answers.
func (s *session) asked() {
	if c := s.current.Load(); c != nil {
		s.heed(c)
	}
	// The loop sees a write error at its next flush.
	_ = s.answers.flush()
}

// heed ends a task if the host has asked for its end.
func (s *session) heed(c *taskContext) {
	if id, reason := s.page.Asked(); id == c.id && (reason == protocol.ReasonTimeout || reason == protocol.ReasonCanceled) {
		c.stop(taskState(reason))
	}
}

// control handles all frames other than tasks, for both loops. drain reports whether the
// session must end.
func (s *session) control(h protocol.Header, cancel func(id uint32, why taskState)) (drain bool, err error) {
	switch h.Kind {
	case protocol.Ping:
		if h.Flags&protocol.Ack == 0 {
			s.answers.add(protocol.Header{Kind: protocol.Ping, Flags: protocol.Ack, Aux: h.Aux}, nil)
		}
	case protocol.Cancel:
		cancel(h.ID, taskState(h.Code))
	case protocol.Drain:
		return true, nil
	case protocol.Hello:
		return false, protocol.Invalidf("a second HELLO")
	default:
		return false, protocol.Invalidf("a worker cannot receive %v", h.Kind)
	}
	return false, nil
}

// job is a task read from the host.
type job struct {
	ctx     *taskContext
	handler bullpen.Handler
	task    bullpen.Task
	output  uint64 // maximum size of its result, 0 for no limit
	end     ending // set when the handler has ended
}

// read fills j from a TASK frame. The payload aliases body or the arena. The timeout does
// not start yet.
func (s *session) read(j *job, h protocol.Header, body []byte, ctx *taskContext) error {
	if h.Code == 0 || int(h.Code) > len(s.handlers) {
		return protocol.Invalidf("TASK for handler %d, which is unknown: there are %d", h.Code, len(s.handlers))
	}
	ctx.session, ctx.id = s, h.ID
	*j = job{ctx: ctx, handler: s.handlers[h.Code-1], output: s.output}
	j.task.Name = s.names[h.Code-1]
	j.task.Observer = (*observer)(ctx)
	if s.chunks {
		j.task.Observer = streamer{(*observer)(ctx)}
	}
	if h.Flags&protocol.Timeout != 0 {
		j.task.Limits.Timeout = time.Duration(h.Aux) * time.Microsecond
		ctx.limited = true
	}
	if h.Flags&protocol.Meta != 0 {
		var err error
		if body, err = j.readPairs(body); err != nil {
			return err
		}
	}
	j.task.Payload = body
	if h.Flags&protocol.Arena != 0 {
		r, err := protocol.ParseRequest(body)
		if err != nil {
			return err
		}
		if s.request.Length == 0 {
			return protocol.Invalidf("an arena reference in TASK, and there is no shared memory")
		}
		if j.task.Payload, err = s.request.Slice(s.memory, r); err != nil {
			return err
		}
	}
	ctx.output = j.output
	j.task.Limits.Output = int(min(j.output, math.MaxInt))
	return nil
}

// readPairs stores the pairs in the task, and returns the rest of body.
func (j *job) readPairs(body []byte) ([]byte, error) {
	pairs, rest, err := protocol.ParsePairs(body)
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		value := string(p.Value)
		switch p.Key {
		case "bullpen.id":
			j.task.ID = value
		case "bullpen.name":
			j.task.Name = value
		case "bullpen.output":
			if j.output, err = protocol.ParseNumber(p.Key, value); err != nil {
				return nil, err
			}
		default:
			if j.task.Meta == nil {
				j.task.Meta = make(map[string]string, len(pairs))
			}
			j.task.Meta[p.Key] = value
		}
	}
	return rest, nil
}
