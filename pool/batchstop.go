package pool

import (
	"context"
	"time"
)

// halt stops runners from claiming items, and drops the items that none has claimed. The
// caller counts them as ended.
func (b *batch[A, R]) halt(cause error) (ended int64) {
	b.mu.Lock()
	if b.cause == nil {
		b.cause = cause
	}
	cause = b.cause
	loose := b.loose
	b.loose = nil
	b.stopped.Store(true)
	b.mu.Unlock()
	n := int64(len(b.args))
	if from := b.cursor.Swap(n); from < n {
		loose = append(loose, [2]int{int(from), int(n)})
	}
	for _, s := range loose {
		b.drop(s[0], s[1], cause)
		ended += int64(s[1] - s[0])
	}
	return ended
}

// stop drops all items that have not started. Running ones continue.
func (b *batch[A, R]) stop(cause error) {
	p := b.f.target.pool
	p.guests.Add(1) // keeps the pool from ending before these are answered
	defer p.farewell()
	ended := b.halt(cause)
	for _, r := range b.all() {
		if from, to := r.shorten(); from < to {
			b.drop(from, to, cause)
			ended += int64(to - from)
		}
	}
	b.ended(ended)
	b.task.Cancel(cause)
}

func (b *batch[A, R]) all() []*runner[A, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*runner[A, R](nil), b.runners...)
}

// shorten takes back the items that a runner has not started.
func (r *runner[A, R]) shorten() (from, to int) {
	for {
		word := r.word.Load()
		i, end := unpack(word)
		if word == lostRunner || end-i < 2 {
			return 0, 0
		}
		if r.word.CompareAndSwap(word, pack(i, i+1)) {
			return i + 1, end
		}
	}
}

// wait waits until one of the batches is over. Meanwhile it takes back items that wait
// behind a long one. When ctx ends, it calls stop, once.
func (f *Func[A, R]) wait(ctx context.Context, out <-chan *batch[A, R], running func() []*batch[A, R], stop func()) *batch[A, R] {
	select {
	case b := <-out:
		return b
	default:
	}
	if w := f.target.pool.workerOf(ctx); w != nil {
		w.waits()
		f.target.pool.call()
	} else {
		defer f.target.pool.makeRoom()()
	}
	timer := time.NewTimer(time.Duration(tick))
	defer timer.Stop()
	ended := ctx.Done()
	for {
		select {
		case b := <-out:
			return b
		case <-ended:
			ended = nil
			stop()
		case <-timer.C:
			for _, b := range running() {
				b.relieve()
			}
			timer.Reset(time.Duration(tick))
		}
	}
}

// relieve takes back the items that wait behind a long one, and queues other runners for
// them.
func (b *batch[A, R]) relieve() {
	for _, r := range b.all() {
		word := r.word.Load()
		if i, end := unpack(word); word != r.seen || word == lostRunner || end-i < 2 {
			r.seen = word
			continue
		}
		for range b.free(r) {
			if !b.send() {
				break // r will claim it
			}
		}
	}
}

// free makes the items that r has not started available to all runners, one by one. It
// returns how many runners could run them.
func (b *batch[A, R]) free(r *runner[A, R]) int {
	b.mu.Lock() // r takes it before it retires
	defer b.mu.Unlock()
	if b.stopped.Load() {
		return 0 // stop handles them
	}
	from, to := r.shorten()
	for i := from; i < to; i++ {
		b.loose = append(b.loose, [2]int{i, i + 1})
	}
	return min(to-from, b.f.target.pool.most())
}

// send queues one more runner if there is room immediately.
func (b *batch[A, R]) send() bool {
	r := b.hire()
	if b.f.target.try(b.f.target.queueOf(), r) {
		return true
	}
	r.fail(b.f.target.pool.closedError()) // which counts if the others were removed from the queue meanwhile
	return false
}
