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

// TestNeighboursOfTheNetwork is the same with functions of Lambda and web servers.
func TestNeighboursOfTheNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run it without -short")
	}
	t.Run("lambda", func(t *testing.T) {
		neighboursOf(t, Config{Command: []string{self(), "function"}, Protocol: Lambda}, func(p *Pool) bullpen.Executor { return enveloped{p} })
	})
	t.Run("http", func(t *testing.T) {
		neighboursOf(t, Config{Command: []string{self(), "web"}, Protocol: HTTP}, func(p *Pool) bullpen.Executor { return enveloped{typed{p}} })
	})
}

func neighbours(t *testing.T, profile Profile) {
	t.Helper()
	neighboursOf(t, Config{Command: []string{self()}, Sandbox: Sandbox{Profile: profile}}, func(p *Pool) bullpen.Executor { return p })
}

// poolOf returns the pool in an executor of these tests.
func poolOf(e bullpen.Executor) *Pool {
	for {
		switch in := e.(type) {
		case enveloped:
			e = in.Executor
		case typed:
			e = in.Executor
		case listed:
			e = in.Executor
		default:
			return e.(*Pool)
		}
	}
}

// neighboursOf runs the suite with pools like base.
func neighboursOf(t *testing.T, base Config, executor func(*Pool) bullpen.Executor) {
	t.Helper()
	executortest.Neighbours(t, executortest.Factory{
		Unasked: base.Protocol != Frames,
		New: func(t *testing.T, o executortest.Options) bullpen.Executor {
			t.Helper()
			c := Config{
				Command: base.Command, Protocol: base.Protocol, Sandbox: base.Sandbox, Min: o.Workers, Max: o.Workers, Queue: o.Queue,
				Overflow: Overflow(o.Overflow), Grace: o.Grace,
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
			return executor(open(t, c))
		},
		KillWorker: killOne,
		Promises: func(e bullpen.Executor) executortest.Promises {
			p := poolOf(e)
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
