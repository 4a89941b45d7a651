package worker

import (
	"errors"
	"io"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

// holdTime is how long a batch may take before its answers are written between two tasks.
const holdTime = time.Millisecond

// serial is the loop of a worker that runs one task at a time: read, run all complete
// frames, write. It uses one goroutine. If a handler ends that goroutine by runtime.Goexit,
// a new one replaces it.
type serial struct {
	*session
	contexts []taskContext // unused ones; made many at a time
	clock    time.Duration // when the last handler ended, or the batch began
	flushed  time.Duration // when answers were last written, or the batch began
	job      job           // the running task
	done     func(*job)    // the method answered; stored to avoid an allocation per task
	err      error         // how the session ended; set before ended is closed
	ended    chan struct{}
}

func newSerial(s *session) *serial {
	l := &serial{session: s, ended: make(chan struct{})}
	l.done = l.answered
	return l
}

func (l *serial) serve() error {
	go l.carry() // ends with the session; serve waits for it
	<-l.ended
	return l.err
}

// carry runs the loop. If a handler ends the goroutine, a new one replaces it.
func (l *serial) carry() {
	finished := false
	defer func() {
		if !finished {
			go l.carry() // replaces this goroutine; serve waits for ended
		}
	}()
	err := l.loop()
	if flushed := l.answers.finish(); err == nil || errors.Is(err, io.EOF) {
		err = flushed
	}
	l.err = err
	finished = true
	close(l.ended)
}

// loop returns nil after DRAIN and io.EOF at the end of the channel.
func (l *serial) loop() error {
	for {
		for {
			h, body, ok, err := l.frames.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			drain, err := l.frame(h, body)
			if err != nil || drain {
				return err
			}
		}
		if err := l.answers.flush(); err != nil {
			return err
		}
		if err := l.frames.fill(); err != nil {
			return err
		}
		l.clock = l.now()
		l.flushed = l.clock
	}
}

func (l *serial) frame(h protocol.Header, body []byte) (drain bool, err error) {
	if err := protocol.CheckToWorker(h, body); err != nil {
		return false, err
	}
	if h.Kind == protocol.Task {
		return false, l.task(h, body)
	}
	// A CANCEL that is read here arrives after the end of its task or before its start, so
	// it is ignored.
	return l.control(h, func(uint32, taskState) {})
}

// newContext returns an unused context.
func (l *serial) newContext() *taskContext {
	if len(l.contexts) == 0 {
		l.contexts = make([]taskContext, 32)
	}
	c := &l.contexts[0]
	l.contexts = l.contexts[1:]
	return c
}

func (l *serial) task(h protocol.Header, body []byte) error {
	c := l.newContext()
	if err := l.read(&l.job, h, body, c); err != nil {
		return err
	}
	if c.limited {
		c.deadline = l.clock + l.job.task.Limits.Timeout
	}
	// Before Begin, because from then on the host may ask the task to end.
	l.current.Store(c)
	if l.page != nil {
		if !l.page.Begin(h.ID) {
			l.current.Store(nil)
			l.answers.add(protocol.Header{Kind: protocol.Returned, ID: h.ID}, nil)
			return nil
		}
		l.heed(c) // an earlier signal may have found no task
	}
	run(&l.job, l.done)
	if l.page == nil || l.clock-l.flushed > holdTime {
		l.flushed = l.clock
		return l.answers.flush()
	}
	return nil
}

// answered answers the task that ran.
func (l *serial) answered(j *job) {
	end := l.now()
	n := l.answer(j, j.ctx.finish(), end-l.clock)
	// After adding the answer, because the host may fetch it by the signal.
	if l.page != nil {
		l.page.End(j.ctx.id)
	}
	l.current.Store(nil)
	l.clock = end
	j.end.payload = nil // may be large
	if n >= flushSize {
		l.flushed = end
		_ = l.answers.flush() // the error stays, and the loop sees it
	}
}
