package wasm

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// control lets other goroutines end the task that an instance runs. Tasks are numbered, so
// that an end which comes late does not hit the next task.
type control struct {
	word  atomic.Uint64                     // number of the task, and the phase in the lowest bits
	flag  atomic.Pointer[api.MutableGlobal] // of the running module, nil if there is none
	due   atomic.Int64                      // when the task's run time is over, 0 for never
	wake  chan struct{}                     // ends a sleep of the guest
	cause error                             // why the task was stopped; belongs to the goroutine that stops it, then to the one that runs it
}

// The phases of an instance.
const (
	_ = iota // idle
	phaseRunning
	phaseStopping // another goroutine stops the guest
	phaseStopped  // it has done so
	phaseBits     = 2
	phaseMask     = 1<<phaseBits - 1
)

// begin begins the next task, and returns its number.
func (k *control) begin() uint64 {
	n := k.word.Load()>>phaseBits + 1
	k.word.Store(n<<phaseBits | phaseRunning)
	return n
}

// stop ends task n if it runs. The guest traps at its next check, which is at the next
// function or loop that it enters, or wakes from its sleep.
func (k *control) stop(n uint64, cause error) {
	if !k.word.CompareAndSwap(n<<phaseBits|phaseRunning, n<<phaseBits|phaseStopping) {
		return
	}
	k.cause = cause
	if flag := k.flag.Load(); flag != nil {
		(*flag).Set(1)
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
	k.word.Store(n<<phaseBits | phaseStopped)
}

// stopped reports whether the running task was stopped.
func (k *control) stopped() bool { return k.word.Load()&phaseMask != phaseRunning }

// end ends the running task, and returns why it was stopped, or nil.
func (k *control) end() error {
	k.due.Store(0)
	word := k.word.Load()
	n := word >> phaseBits
	if word&phaseMask == phaseRunning && k.word.CompareAndSwap(word, n<<phaseBits) {
		return nil
	}
	for k.word.Load()&phaseMask != phaseStopped {
		runtime.Gosched() // the other goroutine has a few instructions left
	}
	cause := k.cause
	k.cause = nil
	select {
	case <-k.wake:
	default:
	}
	k.word.Store(n << phaseBits)
	return cause
}

// errRunTime is the cause of stopping a task whose run time is over.
var errRunTime = errors.New("the run time is over")

// never is the time of an alarm that is not set.
const never = math.MaxInt64

// alarm stops tasks at their deadlines. One timer serves all instances: it is set for the
// earliest deadline, and mostly finds that task ended and sets itself for the next one, so
// that a deadline costs a task two atomic operations.
type alarm struct {
	pool  *Pool
	at    atomic.Int64 // when the timer fires, or never
	timer *time.Timer  // guarded by pool.alarmMu
}

func (a *alarm) init(p *Pool) {
	a.pool = p
	a.at.Store(never)
}

// set makes the alarm ring at due or earlier.
func (a *alarm) set(due int64) {
	if due >= a.at.Load() {
		return
	}
	p := a.pool
	p.alarmMu.Lock()
	defer p.alarmMu.Unlock()
	if due >= a.at.Load() {
		return
	}
	a.at.Store(due)
	wait := max(0, time.Duration(due-p.now()))
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.ring) // its goroutine ends at once; finish stops the timer
	} else {
		a.timer.Reset(wait)
	}
}

// ring stops the tasks whose run time is over. It unsets the alarm first: a task that sets
// its deadline while ring looks either is seen or sets the alarm again.
func (a *alarm) ring() {
	a.at.Store(never)
	p := a.pool
	now, next := p.now(), int64(never)
	p.mu.Lock()
	for c := p.running.first; c != nil; c = c.next {
		due := c.instance.due.Load()
		switch {
		case due == 0:
		case due <= now:
			c.instance.stop(c.number, errRunTime)
		default:
			next = min(next, due)
		}
	}
	over := p.state.State() == Closed
	p.mu.Unlock()
	if next != never && !over {
		a.set(next)
	}
}

// close stops the timer.
func (a *alarm) close() {
	a.pool.alarmMu.Lock()
	defer a.pool.alarmMu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}
