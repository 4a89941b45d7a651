package memory

import (
	"slices"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// mostHeard is how many messages are kept for a slow listener; further ones are lost.
const mostHeard = 1 << 16

// listener receives what is sent to a subject.
type listener struct {
	engine  *Engine
	subject string
	receive func(subject string, data []byte)
	wake    chan struct{} // line has messages
	quit    chan struct{} // closed by stop
	stop    func()

	mu   sync.Mutex
	line []engine.Message // guarded by mu
}

// run calls receive until the listener is stopped. Listen starts it; Close waits for it.
func (l *listener) run() {
	defer l.engine.running.Done()
	for {
		l.mu.Lock()
		line := l.line
		l.line = nil
		l.mu.Unlock()
		for _, m := range line {
			select {
			case <-l.quit:
				return
			default:
			}
			l.receive(m.Subject, m.Data)
		}
		if len(line) > 0 {
			continue
		}
		select {
		case <-l.wake:
		case <-l.quit:
			return
		}
	}
}

func (l *listener) deliver(subject string, data []byte) {
	l.mu.Lock()
	if len(l.line) < mostHeard {
		l.line = append(l.line, engine.Message{Subject: subject, Data: slices.Clone(data)})
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Send sends a message to the listeners of all engines of the namespace, including this
// one.
func (e *Engine) Send(subject string, data []byte) error {
	if f := e.store.fault(Operation{Name: "send", Subject: subject}); f.Err != nil {
		return f.Err
	}
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	if err := engine.CheckSubject(subject); err != nil {
		return err
	}
	for l := range e.space.listeners {
		if engine.Matches(l.subject, subject) {
			l.deliver(subject, data)
		}
	}
	return nil
}

// Listen calls receive for each message sent to a matching subject, until stop is called.
// stop does not wait for a call in progress, but Close does.
func (e *Engine) Listen(subject string, receive func(subject string, data []byte)) (stop func(), err error) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	if err := e.usable(); err != nil {
		return nil, err
	}
	l := &listener{engine: e, subject: subject, receive: receive, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	l.stop = sync.OnceFunc(func() {
		e.store.mu.Lock()
		delete(e.space.listeners, l)
		e.store.mu.Unlock()
		close(l.quit)
	})
	e.space.listeners[l] = struct{}{}
	e.running.Add(1)
	go l.run()
	return l.stop, nil
}
