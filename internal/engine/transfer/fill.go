package transfer

import (
	"context"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const (
	// mostUnderWay is how many puts are in progress at a time.
	mostUnderWay = 256
	// share is how many bytes of data count as one put.
	share = 64 << 10
)

// filler puts items into a store.
type filler struct {
	ctx      context.Context //nolint:containedctx // of the call that made it, and ends it
	to       engine.Engine
	underWay chan struct{}
	failed   chan error // the error of the first refused put
}

func newFiller(ctx context.Context, to engine.Engine) *filler {
	return &filler{ctx: ctx, to: to, underWay: make(chan struct{}, mostUnderWay), failed: make(chan error, 1)}
}

// enter waits until there is room for n more.
func (f *filler) enter(n int) error {
	for range n {
		select {
		case f.underWay <- struct{}{}:
		case err := <-f.failed:
			return err
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
	return nil
}

func (f *filler) put(i item) error {
	if i.Paused != nil {
		return f.to.Pause(f.ctx, engine.Consumer{Queue: i.Paused.Queue, Priority: i.Paused.Priority, Grouped: i.Paused.Grouped}, true)
	}
	p, ok, err := i.message(time.Now())
	if err != nil || !ok {
		return err
	}
	n := min(1+len(p.Data)/share, mostUnderWay)
	if err := f.enter(n); err != nil {
		return err
	}
	f.to.Put(p, func(_ uint64, err error) {
		if err != nil {
			select {
			case f.failed <- fmt.Errorf("copying: %w", err):
			default: // another put failed first
			}
		}
		for range n {
			<-f.underWay
		}
	})
	return nil
}

// message returns the put of an item; ok is false if the item has expired.
func (i *item) message(now time.Time) (p engine.Put, ok bool, err error) {
	p = engine.Put{Subject: i.Subject, Data: i.Data, Durable: true, New: true}
	known := false
	for _, s := range engine.Streams() {
		if s.String() == i.Stream {
			p.Stream, known = s, true
		}
	}
	if !known {
		return p, false, fmt.Errorf("there is no stream %q", i.Stream)
	}
	if i.At != nil {
		p.At = *i.At
	}
	if i.Expires != nil {
		if p.TTL = i.Expires.Sub(now); p.TTL <= 0 {
			return p, false, nil
		}
		p.TTL = max(p.TTL, time.Second)
	}
	return p, true, engine.CheckPut(p)
}

func (f *filler) finish(Summary) error {
	if err := f.enter(mostUnderWay); err != nil {
		return err
	}
	settled := make(chan error, 1)
	f.to.Settle(func(err error) { settled <- err })
	select {
	case err := <-f.failed:
		return err
	case err := <-settled:
		select {
		case err := <-f.failed:
			return err
		default:
			return err
		}
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
}
