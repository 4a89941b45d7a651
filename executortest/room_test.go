package executortest

import (
	"context"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

var roomFaults = []fault{
	{"never tells of room", "Room", wrapped(func(f *faulty) {
		f.room = func() <-chan struct{} { return make(chan struct{}) }
	})},
	{"tells of room that it does not have", "Room", wrapped(func(f *faulty) {
		f.room = func() <-chan struct{} {
			c := make(chan struct{})
			close(c)
			return c
		}
	})},
	{"tells one of those who wait", "Room", wrapped(func(f *faulty) {
		one := make(chan struct{}, 1)
		f.room = func() <-chan struct{} {
			if f.Executor.Capacity() > 0 {
				return bullpen.Room(f.Executor)
			}
			return one
		}
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
				select {
				case one <- struct{}{}:
				default:
				}
				done(r, err)
			})
		}
	})},
	{"looks for room before it notes who waits", "Room", wrapped(func(f *faulty) {
		var s bullpen.RoomSignal
		var looks atomic.Int64
		f.room = func() <-chan struct{} {
			if f.Executor.Capacity() > 0 {
				return bullpen.Room(f.Executor)
			}
			if looks.Add(1)%8 == 0 { // it is held up here now and then
				<-bullpen.Room(f.Executor)
			}
			return s.Next()
		}
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { s.Notify(); done(r, err) })
		}
	})},
	{"does not tell of room at its end", "Room", wrapped(func(f *faulty) {
		var s bullpen.RoomSignal
		f.room = func() <-chan struct{} {
			if f.Executor.Capacity() > 0 {
				return bullpen.Room(f.Executor)
			}
			return s.Next()
		}
		f.submit = func(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
			return f.Executor.Submit(ctx, t, func(r bullpen.Result, err error) { done(r, err); s.Notify() })
		}
	})},
}
