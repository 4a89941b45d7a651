//go:build unix

package process

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// ways to end a pool.
var ways = []struct {
	name  string
	end   func(p *Pool, ctx context.Context) error
	drain bool // what waits is finished
	wait  bool // what runs is finished
}{
	{"Drain", (*Pool).Drain, true, true},
	{"Stop", (*Pool).Stop, false, true},
	{"Close", func(p *Pool, _ context.Context) error { return p.Close() }, false, false},
}

// wantGone fails the test unless the pool has ended and nothing of it lives.
func wantGone(t *testing.T, p *Pool, mark string) {
	t.Helper()
	if s := p.Stats(); s.State != Closed {
		t.Errorf("the pool is %v after its end", s.State)
	}
	if left := mentioned(mark); len(left) > 0 {
		t.Errorf("processes %v live after the end of their pool", left)
	}
	checkEmpty(t, p)
	if err := p.Submit(t.Context(), bullpen.Task{Name: "echo"}, func(bullpen.Result, error) {}); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("a pool that has ended takes a task: %v", err)
	}
}

// When an ending returns, every outcome is final and no process lives.
func TestEndWithWork(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		for _, work := range []string{"sleep", "stubborn", "spin"} {
			t.Run(way.name+" "+work, func(t *testing.T) {
				t.Parallel()
				mark := markOf(t)
				p := selfPool(t, func(c *Config) {
					c.Command, c.Min, c.Max, c.Window, c.Queue, c.Grace = append(c.Command, mark), 2, 2, 1, 3, 100*ms
				})
				awaitReady(t, p, 2)
				var runs, waiting []*asked
				for range 2 {
					runs = append(runs, submit(t, p, bullpen.Task{Name: work, Payload: []byte("3s")}))
				}
				running(t, p, 2)
				for range 3 {
					waiting = append(waiting, submit(t, p, bullpen.Task{Name: "echo"}))
				}
				blocked := make(chan error, 1)
				go func() { _, err := p.Execute(t.Context(), bullpen.Task{Name: "echo"}); blocked <- err }()
				poll(t, "one is blocked", func() bool { return p.Stats().Blocked == 1 })
				if err := way.end(p, t.Context()); err != nil {
					t.Fatal(err)
				}
				wantGone(t, p, mark)
				for _, a := range runs {
					if _, err := a.outcome(t); way.wait && err != nil {
						t.Errorf("a task that ran ended as %v", err)
					} else if !way.wait {
						_ = wantOutcome(t, err, bullpen.Canceled)
					}
				}
				for _, a := range waiting {
					if _, err := a.outcome(t); way.drain && err != nil {
						t.Errorf("a task that waited ended as %v", err)
					} else if !way.drain {
						wantNeverStarted(t, err, bullpen.ErrClosed)
					}
				}
				if err := <-blocked; way.drain != (err == nil) || err != nil && !errors.Is(err, bullpen.ErrClosed) {
					t.Errorf("the caller before the queue got %v", err)
				}
			})
		}
	}
}

// Ends of pools in all other states, and of every kind.
func TestEndWithoutWork(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		for name, c := range map[string]Config{
			"fresh":           {Command: []string{self()}},
			"starting":        {Command: []string{self()}, Min: 2},
			"silent at start": {Command: []string{self(), "zoo", "silent-start"}, Min: 2},
			"failing":         {Command: []string{self(), "zoo", "exit-at-start"}, Min: 2},
			"lines":           {Command: []string{"sh", "-c", "exec cat"}, Protocol: Lines, Min: 2},
			"exec":            {Command: []string{"sh", "-c", "exec cat"}, Protocol: Exec, Min: 2},
			"stays at end of file": {Command: []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"}, Protocol: Lines, Min: 2,
				CloseGrace: 10 * time.Second},
		} {
			t.Run(way.name+" "+name, func(t *testing.T) {
				t.Parallel()
				mark := markOf(t)
				c.Max = 2
				c.Command = append(append([]string{}, c.Command...), mark)
				p := open(t, c)
				if name == "stays at end of file" {
					awaitReady(t, p, 2)
				}
				began := time.Now()
				if err := way.end(p, t.Context()); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d > 20*time.Second {
					t.Errorf("it took %v", d)
				}
				wantGone(t, p, mark)
			})
		}
	}
}

// Drain and Stop go on as Close when their context ends.
func TestEndEscalates(t *testing.T) {
	t.Parallel()
	for _, way := range ways[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			mark := markOf(t)
			p := selfPool(t, func(c *Config) { c.Command, c.Grace = append(c.Command, mark), 100*ms })
			do(t, p, "echo", "warm")
			a := submit(t, p, bullpen.Task{Name: "stubborn", Payload: []byte("1h")})
			running(t, p, 1)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*ms, errWhy)
			defer cancel()
			if err := way.end(p, ctx); !errors.Is(err, errWhy) {
				t.Errorf("the end that was cut short says %v", err)
			}
			_, err := a.outcome(t)
			_ = wantOutcome(t, err, bullpen.Canceled)
			wantGone(t, p, mark)
			if err := way.end(p, t.Context()); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// Worker that neither answers nor reads nor minds signals, with all protocols.
func TestCloseOfWorkersThatIgnoreEverything(t *testing.T) {
	t.Parallel()
	ignore := []string{"sh", "-c", "trap '' TERM HUP INT USR1 URG; read x; while :; do sleep 0.01; done"}
	for name, c := range map[string]Config{
		"frames": {Command: []string{self(), "zoo", "never-answers", "1"}},
		"lines":  {Command: ignore, Protocol: Lines},
		"exec":   {Command: ignore, Protocol: Exec},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := markOf(t)
			c.Max, c.Grace, c.Command = 1, 100*ms, append(append([]string{}, c.Command...), mark)
			p := open(t, c)
			a := submit(t, p, bullpen.Task{Name: "any", Payload: []byte("x")})
			running(t, p, 1)
			began := time.Now()
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("Close took %v", d)
			}
			_, err := a.outcome(t)
			_ = wantOutcome(t, err, bullpen.Canceled)
			wantGone(t, p, mark)
		})
	}
}

func TestEndsFromManyPlacesAtOnce(t *testing.T) {
	t.Parallel()
	mark := markOf(t)
	file := filepath.Join(t.TempDir(), "ran")
	p := selfPool(t, func(c *Config) { c.Command, c.Max = append(c.Command, mark), 2 })
	feed := p.Events(0)
	for range 20 {
		submit(t, p, bullpen.Task{Name: "mark", Payload: []byte(file + " x 20ms")})
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			// The strongest wins; the others may say that it has aborted what they were to finish.
			if err := ways[i%3].end(p, t.Context()); err != nil && !(ways[i%3].wait && errors.Is(err, bullpen.ErrClosed)) {
				t.Errorf("%s: %v", ways[i%3].name, err)
			}
			if p.Stats().State != Closed {
				t.Errorf("%s returned before the end", ways[i%3].name)
			}
		})
	}
	all.Wait()
	for range feed.C { // it is closed
	}
	feed.Close()
	if _, open := <-p.Events(1).C; open {
		t.Error("a closed pool has events")
	}
	wantGone(t, p, mark)
}
