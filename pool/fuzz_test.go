package pool

import (
	"context"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// FuzzConfig makes pools of any configuration: New returns an error that says
// something, or a pool that runs a task and ends.
func FuzzConfig(f *testing.F) {
	f.Add(0, 0, int64(0), 0, uint8(0), int64(0), int64(0), int64(0), 0, false, false, "")
	f.Add(3, 2, int64(-1), -1, uint8(9), int64(-1), int64(-1), int64(-1), -1, true, true, "name")
	f.Add(2, 5, int64(time.Second), 3, uint8(2), int64(time.Minute), int64(1), int64(1), 1, true, false, "p")
	f.Fuzz(func(t *testing.T, minimum, maximum int, idle int64, queue int, overflow uint8, timeout, grace, closeGrace int64, stuck int, spin, help bool, name string) {
		if minimum > 64 && minimum <= mostWorkers {
			minimum %= 64 // a million goroutines are sound, but slow to make
		}
		c := Config{
			Name: name, Min: minimum, Max: maximum, Idle: time.Duration(idle), Queue: queue, Overflow: Overflow(overflow),
			Timeout: time.Duration(timeout), Grace: time.Duration(grace), CloseGrace: time.Duration(closeGrace),
			Stuck: stuck, Spin: spin, Help: help,
			Handlers: map[string]bullpen.Handler{name: func(context.Context, bullpen.Task) ([]byte, error) { return nil, nil }},
		}
		p, err := New(c)
		if err != nil {
			if len(err.Error()) < 20 {
				t.Errorf("error %q says too little", err)
			}
			return
		}
		v, err := NewFunc(p.With(Options{Timeout: -1}), fact).Call(bg, 5)
		if v != 120 || err != nil {
			t.Errorf("a task gave %d, %v", v, err)
		}
		if err := p.Drain(bg); err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
}
