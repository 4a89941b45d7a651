package process

import (
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// never is a time that does not come.
const never = math.MaxInt64

// keep is the pool's keeper: it does all that is due at a time and not at an
// answer. New starts it; it ends with the pool and closes over.
func (p *Pool) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := p.now()
		p.mu.Lock()
		p.wakeAt = never
		claimed, ended := p.tend(now)
		wait := p.wakeAt - now
		p.mu.Unlock()
		for _, w := range claimed {
			p.flush(w, false)
		}
		if ended {
			p.finish()
			return
		}
		// A wait of zero would starve others; the clock is no finer anyway.
		timer.Reset(time.Duration(max(wait, int64(50*time.Microsecond))))
		select {
		case <-timer.C:
		case <-p.poke:
		}
	}
}

// tend does what is due now. It returns the workers that it has claimed for
// writing, and whether nothing of the pool is left. Pool.mu is held.
func (p *Pool) tend(now int64) (claimed []*worker, ended bool) {
	for _, w := range slices.Clone(p.workers) {
		p.tendWorker(w, now)
		if w.in != nil && w.state.State() != WorkerStarting && w.state.State() != WorkerGone && p.claim(w) {
			claimed = append(claimed, w)
		}
	}
	p.tendIdle(now)
	p.tendAge(now)
	p.tendSize(now)
	return claimed, p.tendEnd(now)
}

// tendWorker looks after deadlines of w and its tasks. Pool.mu is held.
func (p *Pool) tendWorker(w *worker, now int64) {
	if w.overdue != 0 && !w.exited {
		if now >= w.overdue {
			cause := ByEnd
			if w.state.State() != WorkerLeaving && !w.killed {
				cause = ByProtocol
				w.fault = errNoAnswer
			}
			p.kill(w, cause, nil)
			w.overdue = 0
		} else {
			p.wakeBy(w.overdue)
		}
	}
	if w.killed || w.exited {
		return
	}
	if w.count > 0 {
		p.tendTasks(w, now)
		p.tendBehind(w, now)
	} else {
		p.tendPing(w, now)
	}
}

// tendTasks ends tasks that overran their run time or were taken back.
func (p *Pool) tendTasks(w *worker, now int64) {
	number := w.oldest
	for range w.count {
		c := w.flight[int(number)&(len(w.flight)-1)]
		for c == nil && number != w.next {
			number = protocol.Next(number)
			c = w.flight[int(number)&(len(w.flight)-1)]
		}
		if c == nil {
			return
		}
		if c.timeout > 0 && c.started > 0 && c.cause == nil {
			if due := c.started + int64(c.timeout); now >= due {
				c.cause = errRunTime
			} else {
				p.wakeBy(due)
			}
		}
		if c.cause != nil {
			p.attendTo(w, c, now)
		}
		number = protocol.Next(number)
	}
}

// attend looks at once after the tasks of w that are to end. Pool.mu is held.
func (p *Pool) attend(w *worker, now int64) {
	if w != nil && !w.killed && !w.exited {
		p.tendTasks(w, now)
		p.wakeBy(now) // the keeper writes what has to be written
	}
}

// attendTo ends one task that w has in hand: takes it back when it has not
// started, else asks, and kills w after the grace.
func (p *Pool) attendTo(w *worker, c *call, now int64) {
	if c.asked {
		if now >= c.askedAt+int64(p.config.Grace) {
			p.kill(w, causeOf(c), c)
		} else {
			p.wakeBy(c.askedAt + int64(p.config.Grace))
		}
		return
	}
	if p.config.Protocol == Exec {
		c.asked, c.askedAt = true, now
		p.askExec(w)
		p.wakeBy(now + int64(p.config.Grace))
		return
	}
	if w.concurrency == 1 && c.number != w.oldest {
		p.recall(w, c.number, now)
		p.wakeBy(now + int64(growWait))
		return // it comes back, or becomes the oldest
	}
	if !w.written(c) {
		p.wakeBy(now + int64(growWait))
		return
	}
	if !w.askable() {
		p.kill(w, causeOf(c), c)
		return
	}
	c.asked, c.askedAt = true, now
	p.wakeBy(now + int64(p.config.Grace))
	code := uint16(protocol.ReasonCanceled)
	if isDeadline(c.cause) {
		code = protocol.ReasonTimeout
	}
	w.control = w.codec.AppendCancel(w.control, c.number, code)
	if w.page != nil && w.hello.Ask > 0 && w.concurrency == 1 {
		w.page.Ask(c.number, uint32(code))
		w.nudge()
	}
}

// askable tells whether w can hear that a running task is to end.
func (w *worker) askable() bool {
	return w.hello != nil && (w.concurrency > 1 || w.page != nil && w.hello.Ask > 0)
}

// written tells whether c has been encoded for w, so that w may have it.
func (w *worker) written(c *call) bool {
	return !slices.Contains(w.pending, c) && !protocol.Before(w.sentTo.Load(), c.number)
}

// nudge makes w look at the shared page.
func (w *worker) nudge() {
	if err := w.child.Signal(syscall.Signal(w.hello.Ask)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.pool.logs.fault(err)
	}
}

func causeOf(c *call) Cause {
	if isDeadline(c.cause) {
		return ByTimeout
	}
	return ByCancel
}

// recall takes back what w has not started, from task number first on: the
// tasks are the pool's again at once, and the worker will return them when it
// comes to them. Until then it gets nothing new. Pool.mu is held.
func (p *Pool) recall(w *worker, first uint32, now int64) {
	if w.page == nil || w.recalled != 0 || w.writing || len(w.pending) > 0 || w.concurrency > 1 {
		return // the next look will do it
	}
	w.recalled = first
	if started := w.page.Recall(first); !protocol.Before(started, first) {
		first = protocol.Next(started)
	}
	var back []*call
	for number := first; number != w.next; number = protocol.Next(number) {
		if c := w.flight[int(number)&(len(w.flight)-1)]; c != nil && c.number == number {
			w.drop(c)
			w.owed++
			back = append(back, c)
		}
	}
	w.mine = first
	for _, c := range slices.Backward(back) {
		p.replay(c)
	}
	w.nudgeIfHeld(now)
	p.endRecall(w)
}

// endRecall lets w start tasks again once it has returned what it owes. Tasks
// that it had begun before it saw the recall are told by their answers. Pool.mu
// is held.
func (p *Pool) endRecall(w *worker) {
	if w.recalled == 0 || w.owed > 0 {
		return
	}
	for _, c := range w.flight {
		if c != nil && !protocol.Before(c.number, w.recalled) {
			return
		}
	}
	w.page.EndRecall()
	w.recalled = 0
}

// tendBehind helps tasks that wait in w behind one that takes long: it takes
// them back, and makes w send the answers that it holds.
func (p *Pool) tendBehind(w *worker, now int64) {
	if w.talk == nil {
		p.tendSilence(w, now)
		return
	}
	if w.count < 2 || w.page == nil || w.concurrency > 1 {
		return
	}
	p.wakeBy(now + int64(growWait))
	oldest := w.flight[int(w.oldest)&(len(w.flight)-1)]
	if oldest == nil || now-max(oldest.started, oldest.sent) < 2*int64(growWait) {
		return
	}
	w.nudgeIfHeld(now)
	started := w.page.Started()
	if started == w.page.Finished() {
		return // between two tasks
	}
	if first := protocol.Next(started); protocol.Before(first, w.next) {
		p.recall(w, first, now)
	}
}

// nudgeIfHeld makes w write answers that it holds while a task runs.
func (w *worker) nudgeIfHeld(now int64) {
	if w.hello.Ask > 0 && w.page.Started() != w.oldest && now-w.nudgedAt >= int64(growWait) {
		w.nudgedAt = now
		w.nudge()
	}
}

// tendPing asks idle workers whether they live.
func (p *Pool) tendPing(w *worker, now int64) {
	if p.config.Ping < 0 || w.state.State() != WorkerIdle || w.talk == nil {
		return
	}
	due := max(w.idleSince, w.pingedAt) + int64(p.config.Ping)
	if now < due {
		p.wakeBy(due)
		return
	}
	if w.pingedAt > w.idleSince && !w.ponged {
		p.kill(w, BySilence, nil)
		return
	}
	w.pingedAt, w.ponged = now, false
	w.control = w.talk.AppendPing(w.control, 0)
	p.wakeBy(now + int64(p.config.Ping))
}

// told acts on what a worker says that is not an answer. worker.reading is held.
func (p *Pool) told(w *worker, m wire.Message) error {
	if w.hello == nil {
		return p.greeted(w, m)
	}
	switch m.Kind {
	case protocol.Progress, protocol.Log:
		p.relay(w, m)
	case protocol.Ping:
		p.pinged(w, m)
	case protocol.Started:
		p.mu.Lock()
		defer p.mu.Unlock()
		c := w.flight[int(m.Number)&(len(w.flight)-1)]
		if c == nil || c.number != m.Number {
			return protocol.Invalidf("STARTED for task %d, which the worker does not have", m.Number)
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

// pinged takes a PING, or the answer to ours.
func (p *Pool) pinged(w *worker, m wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Flags&protocol.Ack != 0 {
		w.ponged = true
		return
	}
	if len(w.control) < 1<<12 { // a flood of them gets no answer
		w.control = w.talk.AppendPong(w.control, m.Aux)
		p.wakeBy(0)
	}
}

// greeted takes the worker's HELLO. worker.reading is held.
func (p *Pool) greeted(w *worker, m wire.Message) error {
	hello, err := w.talk.TakeHello(m)
	if err != nil {
		return err
	}
	_ = w.out.SetDeadline(time.Time{})
	p.mu.Lock()
	if w.exited {
		_ = w.out.SetDeadline(time.Unix(1, 0))
	}
	p.welcome(w, hello, p.now())
	mine := p.claim(w)
	p.mu.Unlock()
	if mine {
		p.flush(w, false)
	}
	return nil
}

// snapshot describes the pool for a decision. Pool.mu is held.
func (p *Pool) snapshot(now int64) snapshot {
	s := snapshot{
		queued: p.queue.n, meanRun: time.Duration(p.meanRun), meanStart: time.Duration(p.meanStart),
		size: len(p.workers), starting: p.starting, idle: len(p.idle), busy: p.busy(), leaving: p.leaving,
		min: p.min, max: p.max, spare: p.config.Spare, startLimit: max(4, 2*runtime.GOMAXPROCS(0)),
	}
	if p.queue.first != nil {
		s.oldest = time.Duration(now - p.queue.first.accepted)
	}
	for _, w := range p.workers {
		if w.spent && w.state.State() != WorkerLeaving {
			s.size--
		}
		if w.state.State() == WorkerGone {
			s.size--
		}
	}
	return s
}

// tendSize starts workers. Pool.mu is held.
func (p *Pool) tendSize(now int64) {
	if p.state.State() > Stopping {
		return
	}
	s := p.snapshot(now)
	if p.state.State() != Open {
		s.min, s.spare = 0, 0
	}
	if p.queue.n > 0 && s.size < s.max {
		p.wakeBy(max(now+int64(growWait)/4, p.queue.first.accepted+int64(s.threshold())))
	}
	n := s.grow()
	if n == 0 {
		return
	}
	if now < p.nextStart {
		p.wakeBy(p.nextStart)
		return
	}
	if p.failures > 0 {
		n = 1 // a trial
		if p.starting > 0 {
			return
		}
	}
	for range n {
		p.launch()
	}
}

// tendIdle lets workers leave that have idled long enough, those that have
// idled longest first. Pool.mu is held.
func (p *Pool) tendIdle(now int64) {
	if p.state.State() != Open {
		return
	}
	for len(p.idle) > 0 && len(p.workers)-p.leaving > p.max {
		p.retire(p.idle[0], ByResize, now)
	}
	if p.config.Idle < 0 {
		return
	}
	for _, w := range slices.Clone(p.idle) {
		due := w.idleSince + int64(p.config.Idle)
		if now < due {
			p.wakeBy(due)
			return // those behind it came later
		}
		if p.snapshot(now).shrink() {
			p.retire(w, ByIdle, now)
			continue
		}
		if again := w.keptAt + int64(p.config.Idle); now < again {
			p.wakeBy(again)
			continue
		}
		w.keptAt = now
		p.wakeBy(now + int64(p.config.Idle))
		if p.config.Protocol != Exec {
			p.emit(Event{Kind: KeptAlive, Worker: w.name, PID: w.pid})
		}
	}
}

// retire lets w leave: it finishes what it has in hand, then reads end of file
// and exits. Pool.mu is held.
func (p *Pool) retire(w *worker, cause Cause, now int64) {
	from, err := w.state.MoveAny(WorkerLeaving)
	if err != nil {
		return // it leaves already
	}
	p.leaving++
	switch from {
	case WorkerStarting:
		p.starting--
	case WorkerIdle:
		if i := slices.Index(p.idle, w); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
	default:
	}
	w.cause = cause
	if p.config.Protocol != Exec {
		p.emit(Event{Kind: Retired, Worker: w.name, PID: w.pid, Cause: cause})
	}
	if w.count == 0 {
		p.dismiss(w, now)
	}
}

// dismiss closes the worker's input. Pool.mu is held.
func (p *Pool) dismiss(w *worker, now int64) {
	if p.config.Protocol == Exec {
		w.exited, w.drained = true, true
		p.tasks.Go(func() { p.settle(w) }) // ends at once
		return
	}
	if w.in != nil {
		_ = w.in.Close()
	}
	w.overdueBy(now + int64(p.config.CloseGrace)/2)
}
