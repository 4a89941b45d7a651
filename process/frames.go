package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/internal/wire/frames"
	"github.com/bullpen-run/bullpen/protocol"
)

// framesDriver drives a worker that speaks Bullpen's own protocol, protocol/SPEC.md.
type framesDriver struct {
	stream
	session *frames.Session
	memory  *confine.Memory // shared with the worker; nil without an arena

	// The reader writes them once, under Pool.mu.
	hello *frames.Hello  // nil before the worker is ready
	page  *protocol.Page // nil if the worker does not use it

	// Pool.mu guards the fields below.
	recalled uint32 // first number of the current recall, 0 for none
	mine     uint32 // first number that the recall took back
	owed     int    // recalled tasks that the worker has not returned yet
	nudgedAt int64
	pingedAt int64
	ponged   bool
}

func driveFrames(w *worker) driver { return &framesDriver{stream: stream{base: base{w}}} }

// checkFrame returns an error if, as far as is known, no worker could accept c: the one
// that last became ready has no handler for it, or it does not fit into one frame, as it
// must when the arena is full. Pool.mu is held.
func checkFrame(p *Pool, c *call) error {
	limit := uint32(protocol.DefaultFrame)
	if p.hello != nil {
		if err := p.hello.Check(&c.task); err != nil {
			return err
		}
		limit = p.hello.MaxFrame
	}
	if len(c.task.Payload) < protocol.ArenaMin {
		return nil
	}
	size := len(c.task.Payload) + len(c.task.ID) + len(c.task.Name) + 256
	for k, v := range c.task.Meta {
		size += len(k) + len(v) + 6
	}
	if uint64(size) > uint64(limit) {
		return fmt.Errorf("%w: the task has %d bytes, the worker accepts at most %d: pass the name of a file instead",
			bullpen.ErrRefused, size, limit)
	}
	return nil
}

func (d *framesDriver) open(spec *confine.Spec, made *pipes) error {
	c := d.w.pool.config
	var bytes []byte
	if c.Arena > 0 {
		m, err := confine.NewMemory(d.w.name, max(c.Arena, 4*protocol.PageSize))
		if err == nil {
			d.memory, bytes = m, m.Bytes()
		} else if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	var err error
	if d.session, err = frames.New(bytes, uint32(c.Limits.Output+protocol.DefaultFrame/64)); err != nil {
		return err
	}
	var channel string
	if spec.Files, channel, err = made.frames(d.memory); err != nil {
		return err
	}
	spec.Env = with(spec.Env, "BULLPEN_WORKER="+channel)
	d.w.spins = &d.stream
	return d.connect(made, d.decodeFrames)
}

// converse says hello and reads until the end. The worker's own hello makes it ready.
func (d *framesDriver) converse() {
	hello := d.session.AppendHello(nil, d.w.name, d.w.pid, d.w.pool.config.Limits.Output)
	// An error means that the worker has ended, which watch notices.
	if n, err := d.in.Try(hello); err == nil && n < len(hello) {
		_, _ = d.in.Write(hello[n:]) // only where pipes cannot be nonblocking
	}
	d.read()
}

func (d *framesDriver) close() {
	d.stream.close()
	if d.memory != nil {
		_ = d.memory.Close()
	}
}

// check returns why this worker cannot take t.
func (d *framesDriver) check(t *bullpen.Task) error { return d.session.Check(t) }

func (d *framesDriver) send() {
	limit := d.w.pool.config.Limits.Output
	for out, more := d.next(); more; out, more = d.next() {
		for _, c := range d.batch {
			t := wire.Task{Number: c.number, Timeout: c.timeout, Task: &c.task}
			if c.output != limit {
				t.Output = c.output
			}
			out = d.session.AppendTask(out, t)
			d.w.sentTo.Store(c.number)
		}
		if !d.write(out) {
			return
		}
	}
}

func (d *framesDriver) forget(number uint32) { d.session.Answered(number) }
func (d *framesDriver) release(taken uint64) { d.session.Release(taken) }

// cancel asks c to end, if the worker can be asked while a handler runs.
func (d *framesDriver) cancel(c *call) bool {
	w := d.w
	alone := w.concurrency == 1
	if alone && (d.page == nil || d.hello.Ask == 0) {
		return false
	}
	if c.chunks != nil {
		w.pool.tasks.Go(d.resumeReading) // ends when it has read what there is, the answer perhaps
	}
	code := uint16(protocol.ReasonCanceled)
	if isDeadline(c.cause) {
		code = protocol.ReasonTimeout
	}
	w.control = d.session.AppendCancel(w.control, c.number, code)
	if alone {
		d.page.Ask(c.number, uint32(code))
		d.nudge()
	}
	return true
}

// nudge signals the worker to read the shared page.
func (d *framesDriver) nudge() {
	if err := d.w.child.Signal(syscall.Signal(d.hello.Ask)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.w.pool.logs.fault(err)
	}
}

func (d *framesDriver) tend(now int64) {
	if d.w.count == 0 {
		d.ping(now)
		return
	}
	d.noteBegun(now)
	d.tendBehind(now)
}

// ping pings an idle worker and kills one that does not answer.
func (d *framesDriver) ping(now int64) {
	w, p := d.w, d.w.pool
	if p.config.Ping < 0 || w.state.State() != WorkerIdle {
		return
	}
	due := max(w.idleSince, d.pingedAt) + int64(p.config.Ping)
	if now < due {
		p.wakeBy(due)
		return
	}
	if d.pingedAt > w.idleSince && !d.ponged {
		p.kill(w, BySilence, nil)
		return
	}
	d.pingedAt, d.ponged = now, false
	w.control = d.session.AppendPing(w.control, 0)
	p.wakeBy(now + int64(p.config.Ping))
}

// verdict determines how far c had come from the shared page: protocol/SPEC.md section
// 6.1.
func (d *framesDriver) verdict(c *call) verdict {
	switch w := d.w; {
	case d.page == nil:
		if w.concurrency > 1 || c.number == w.oldest {
			return suspect
		}
		return notStarted
	case protocol.Before(d.page.Started(), c.number):
		return notStarted
	case w.concurrency == 1:
		if d.busyWith(c) {
			return suspect
		}
		return unknown
	default:
		for k := range w.concurrency {
			if d.page.RunningAt(k) == c.number {
				return suspect
			}
		}
		return unknown
	}
}

// decodeFrames removes all complete frames from the buffer and handles them.
func (d *framesDriver) decodeFrames() error {
	need := 0
	var fault error
	for d.start < d.end && fault == nil {
		m, n, least, err := d.session.Next(d.buffer[d.start:d.end])
		if n == 0 || err != nil {
			need, fault = least, err
			break
		}
		d.start += n
		switch m.Kind {
		case protocol.Result, protocol.Returned:
			d.answers.messages = append(d.answers.messages, m)
		case protocol.Error:
			if _, fault = protocol.ParseAllPairs(m.Body); fault == nil {
				d.answers.messages = append(d.answers.messages, m)
			}
		default:
			fault = d.handle(m)
		}
	}
	return d.decoded(need, fault)
}

// handle handles a message that is not an answer.
func (d *framesDriver) handle(m wire.Message) error {
	if d.hello == nil {
		return d.greeted(m)
	}
	w, p := d.w, d.w.pool
	switch m.Kind {
	case protocol.Progress, protocol.Log:
		d.relay(m)
	case protocol.Chunk:
		return d.chunk(m)
	case protocol.Ping:
		d.pinged(m)
	case protocol.Started:
		p.mu.Lock()
		defer p.mu.Unlock()
		c := w.flight[int(m.Number)&(len(w.flight)-1)]
		if c == nil || c.number != m.Number {
			return protocol.Invalidf("the worker sent STARTED for task %d, which it does not have", m.Number)
		}
		if w.concurrency > 1 || c.started == 0 {
			c.started = p.now()
		}
	case protocol.Drain:
		p.mu.Lock()
		p.flag(w, ByItself)
		p.mu.Unlock()
	default:
		return protocol.Invalidf("%v from a worker", m.Kind)
	}
	return nil
}

// greeted handles the worker's HELLO.
func (d *framesDriver) greeted(m wire.Message) error {
	hello, err := d.session.TakeHello(m)
	if err != nil {
		return err
	}
	w, p := d.w, d.w.pool
	p.mu.Lock()
	d.hello, p.hello = hello, hello
	d.page = d.session.Page()
	w.concurrency, w.recallable = hello.Concurrency, d.page != nil
	p.mu.Unlock()
	w.ready()
	return nil
}

// pinged handles a PING, or the answer to ours.
func (d *framesDriver) pinged(m wire.Message) {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Flags&protocol.Ack != 0 {
		d.ponged = true
		return
	}
	if len(w.control) < 1<<12 { // do not answer a flood
		w.control = d.session.AppendPong(w.control, m.Aux)
		p.wakeBy(0)
	}
}

// streams are the stream names by the aux field of a LOG frame.
var streams = [...]string{"log", "stdout", "stderr"}

// relay passes on a LOG or PROGRESS frame.
func (d *framesDriver) relay(m wire.Message) {
	w, p := d.w, d.w.pool
	r := record{worker: w.name, line: bullpen.LogLine{
		Time: time.Now(), Text: strings.ToValidUTF8(string(m.Body[:min(len(m.Body), protocol.MaxLogText)]), "\uFFFD"),
	}}
	if m.Kind == protocol.Progress {
		r.progress, r.fraction = true, float64(min(m.Aux, 1_000_000))/1e6
	} else {
		r.line.Level = int(m.Code) - protocol.LevelZero
		r.line.Stream = streams[min(int(m.Aux), len(streams)-1)]
		if m.Aux == 2 {
			w.tail.add(r.line.Text)
		}
	}
	if m.Number != 0 {
		p.mu.Lock()
		if c := w.flight[int(m.Number)&(len(w.flight)-1)]; c != nil && c.number == m.Number {
			r.of(c)
		}
		p.mu.Unlock()
	}
	if r.progress && !r.watched() {
		return
	}
	p.logs.put(r)
}
