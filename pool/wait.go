package pool

import (
	"context"
	"errors"
	"runtime"
)

// ErrTaken means that Take has taken the future's result, so the future is no longer
// usable.
var ErrTaken = errors.New("the result of this future was already taken")

// await waits until the task is done or ctx ends. If mine is true, the flag hasWaiter
// belongs to this caller.
func (h *head) await(ctx context.Context, gen uint64) (mine bool, err error) {
	word := h.word.Load()
	switch {
	case genOf(word) != gen:
		return false, ErrTaken
	case stateOf(word).over():
		return false, nil
	}
	p := h.target.pool
	if (p.config.Help || p.config.Spin) && h.hasten(gen) {
		return false, nil
	}
	if w := p.workerOf(ctx); w != nil {
		w.waits() // it occupies a worker while it waits, so there may be one more
		p.call()
	} else if p.full() {
		p.wakeKeeper() // it may be a task nevertheless, see stall
	}
	return h.sleep(ctx, gen)
}

// hasten does what the pool's options allow before sleeping: it runs the task here, or
// polls for its end for a while.
func (h *head) hasten(gen uint64) bool {
	p := h.target.pool
	if p.config.Help && h.target.lane == nil && h.target.delay == 0 && stateOf(h.word.Load()) == TaskQueued {
		p.help(h, gen)
	}
	if !p.config.Spin || p.procs == 1 {
		return h.isDone(gen)
	}
	for i := range spinWait {
		if h.isDone(gen) {
			return true
		}
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
		pause()
	}
	return false
}

// A spinning caller polls spinWait times, with pause in between. After each yieldEvery
// polls it yields the processor, because the worker may be queued behind it on the same
// one.
const (
	spinWait   = 400
	yieldEvery = 48
)

func (h *head) isDone(gen uint64) bool {
	word := h.word.Load()
	return stateOf(word).over() || genOf(word) != gen
}

// sleep waits for the token, which only one caller may do, or joins the crowd.
func (h *head) sleep(ctx context.Context, gen uint64) (mine bool, err error) {
	if h.token.Load() == nil {
		h.token.CompareAndSwap(nil, &token{make(chan struct{}, 1)})
	}
	for {
		word := h.word.Load()
		switch {
		case genOf(word) != gen:
			return false, ErrTaken
		case stateOf(word).over():
			return false, nil
		case word&hasWaiter != 0:
			return false, h.sleepInCrowd(ctx, gen)
		}
		if h.word.CompareAndSwap(word, word|hasWaiter) {
			err := h.sleepForToken(ctx)
			return err == nil, err
		}
	}
}

// sleepForToken leaves the flag hasWaiter set, so the object belongs to the caller until
// take or Wait clears the flag.
func (h *head) sleepForToken(ctx context.Context) error {
	if ctx.Done() != nil || h.parentDone() != nil {
		return h.sleepUntil(ctx, func() {})
	}
	if <-h.token.Load().c; stateOf(h.word.Load()).over() {
		return nil
	}
	return h.sleepUntil(ctx, h.target.pool.makeRoom())
}

// sleepUntil is sleepForToken with an end by ctx. A token that arrives before the task is
// over is a poke, see stall. back undoes the effect of the previous poke.
func (h *head) sleepUntil(ctx context.Context, back func()) error {
	defer func() { back() }()
	c := h.token.Load().c
	mine, parent := ctx.Done(), h.parentDone()
	for {
		select {
		case <-c:
			if stateOf(h.word.Load()).over() {
				return nil
			}
			back()
			back = h.target.pool.makeRoom()
		case <-parent:
			parent = nil
			h.own.parentEnded()
		case <-mine:
			if h.giveUp() {
				return context.Cause(ctx)
			}
			mine = nil // the task is done: the token will arrive
		}
	}
}

// giveUp stops waiting for the token. It returns false if the task is done.
func (h *head) giveUp() bool {
	for {
		word := h.word.Load()
		if stateOf(word).over() {
			return false
		}
		if h.word.CompareAndSwap(word, word&^hasWaiter) {
			return true
		}
	}
}

func (h *head) sleepInCrowd(ctx context.Context, gen uint64) error {
	if !h.keep(gen) {
		return ErrTaken
	}
	ended, parent := h.ended(), h.parentDone()
	for {
		select {
		case <-ended:
			return nil
		case <-parent:
			parent = nil
			h.own.parentEnded()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// parentDone returns the Done channel of the context with which the task was submitted.
func (h *head) parentDone() <-chan struct{} {
	if h.own == nil {
		return nil
	}
	return h.own.parent.Done()
}
