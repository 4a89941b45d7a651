//go:build unix

package process

import (
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// TestNeighbours is not parallel, as the suite demands.
func TestNeighbours(t *testing.T) {
	neighbours(t, ProfileDefault)
}

// TestNeighboursInStrictProfile is the same with workers that see nothing.
func TestNeighboursInStrictProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute: run it without -short")
	}
	p, err := New(Config{Command: []string{self()}, Sandbox: Sandbox{Profile: ProfileStrict}})
	if err != nil {
		t.Skip("this machine cannot keep the profile: ", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	neighbours(t, ProfileStrict)
}

func neighbours(t *testing.T, profile Profile) {
	t.Helper()
	executortest.Neighbours(t, executortest.Factory{
		New: func(t *testing.T, o executortest.Options) bullpen.Executor {
			t.Helper()
			c := Config{
				Command: []string{self()}, Min: o.Workers, Max: o.Workers, Queue: o.Queue,
				Overflow: Overflow(o.Overflow), Grace: o.Grace, Sandbox: Sandbox{Profile: profile},
				Nice: DefaultNice, // bad neighbours are not to starve the tests of other packages
			}
			if keepable(t, confine.Bounds{Memory: o.Bounds.Memory}) {
				c.Limits.Memory = o.Bounds.Memory
			}
			if keepable(t, confine.Bounds{CPU: o.Bounds.CPU}) {
				c.Limits.CPU = o.Bounds.CPU
			}
			if keepable(t, confine.Bounds{PIDs: o.Bounds.PIDs}) {
				c.PIDs = o.Bounds.PIDs
			}
			return open(t, c)
		},
		KillWorker: killOne,
		Promises: func(e bullpen.Executor) executortest.Promises {
			p := e.(*Pool)
			return executortest.Promises{
				PIDs: p.config.PIDs > 0, Temp: p.scratch != nil, Family: p.groups != nil,
			}
		},
	})
}

// keepable reports whether the control groups of this machine keep b.
func keepable(t *testing.T, b confine.Bounds) bool {
	t.Helper()
	groups, err := confine.OpenGroups(b)
	if err != nil {
		t.Log("left out: ", err)
		return false
	}
	if err := groups.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}
