package bullpen_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// desk is an executor with one place. What it runs ends when free is called.
type desk struct {
	bullpen.Executor

	taken  atomic.Bool
	signal bullpen.RoomSignal
}

func (d *desk) Capacity() int {
	if d.taken.Load() {
		return 0
	}
	return 1
}

func (d *desk) Room() <-chan struct{} {
	c := d.signal.Next()
	if d.Capacity() > 0 {
		d.signal.Notify()
	}
	return c
}

func (d *desk) take() bool { return d.taken.CompareAndSwap(false, true) }

func (d *desk) free() {
	d.taken.Store(false)
	d.signal.Notify()
}

// TestRoomSignal has many who wait for the one place of an executor: none waits for
// ever while it is free.
func TestRoomSignal(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 2000
	var d desk
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range callers {
		all.Go(func() {
			for range rounds {
				for !d.take() {
					select {
					case <-bullpen.Room(&d):
					case <-ctx.Done():
						t.Error("a wake-up was lost")
						return
					}
				}
				d.free()
			}
		})
	}
	all.Wait()
}

// TestRoomOfWhoCannotTell: an executor without the signal has no channel.
func TestRoomOfWhoCannotTell(t *testing.T) {
	t.Parallel()
	if c := bullpen.Room(&inline{}); c != nil {
		t.Error("an executor that cannot tell of room has a channel for it")
	}
}

// TestRoomSignalCosts: nothing is allocated while nobody waits.
func TestRoomSignalCosts(t *testing.T) {
	var s bullpen.RoomSignal
	if n := testing.AllocsPerRun(100, s.Notify); n > 0 {
		t.Errorf("Tell allocates %v times while nobody waits", n)
	}
}

func ExampleRoom() {
	var d desk
	d.take()
	room := bullpen.Room(&d)
	select {
	case <-room:
		fmt.Println("room")
	default:
		fmt.Println("full")
	}
	d.free() // elsewhere, by the end of a task
	<-room
	fmt.Println("room for", d.Capacity())
	// Output:
	// full
	// room for 1
}

func ExampleRoomSignal() {
	var s bullpen.RoomSignal
	a, b := s.Next(), s.Next() // any number may wait
	fmt.Println(s.HasWaiters())
	s.Notify()
	<-a
	<-b
	fmt.Println(s.HasWaiters())
	// Output:
	// true
	// false
}
