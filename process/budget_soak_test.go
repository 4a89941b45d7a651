//go:build unix

package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

// budgetSoak makes pools on one budget, one after the other, works them, kills
// their workers and ends them in every way.
type budgetSoak struct {
	t      *testing.T
	config Config
	soak   *soak // for its kill

	outcomes [bullpen.OutcomeCount]int
	never    int
}

func (s *budgetSoak) run(until time.Time) {
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		s.round()
	}
	s.t.Logf("outcomes %v, never started %d", s.outcomes, s.never)
}

// round is the life of one pool.
func (s *budgetSoak) round() {
	c := s.config
	c.Min, c.Max, c.Spare = rand.IntN(2), 1+rand.IntN(4), rand.IntN(2)
	c.Idle = time.Duration(rand.IntN(200)-20) * ms
	if rand.IntN(3) == 0 {
		c.Recycle = Recycle{Tasks: 50, Age: 200 * ms}
	}
	p, err := New(quick(c))
	if err != nil {
		s.t.Error(err)
		return
	}
	stop := make(chan struct{})
	var others, callers sync.WaitGroup
	others.Go(func() { every(50*ms, stop, func() { s.soak.kill(p) }) })
	others.Go(func() {
		every(70*ms, stop, func() { low := rand.IntN(3); _ = p.Resize(low, low+1+rand.IntN(3)) })
	})
	others.Go(func() {
		every(150*ms, stop, func() {
			ctx, cancel := context.WithTimeout(s.t.Context(), 100*ms)
			defer cancel()
			_ = p.Reload(ctx)
		})
	})
	closes := rand.IntN(3) == 0
	callers.Go(func() { s.call(p, !closes) })
	if closes {
		pause(time.Duration(rand.IntN(300)) * ms)
		if err := p.Close(); err != nil {
			s.t.Errorf("Close: %v", err)
		}
	}
	callers.Wait()
	close(stop)
	others.Wait()
	if err := p.Drain(within(s.t, 30*time.Second)); err != nil {
		s.t.Errorf("Drain: %v", err)
	}
	checkEmpty(s.t, p)
}

// call hands tasks over and counts how they end. all says that nobody ends the
// pool.
func (s *budgetSoak) call(p *Pool, all bool) {
	for range 1 + rand.IntN(4) {
		tasks := make([]bullpen.Task, 1+rand.IntN(100))
		for i := range tasks {
			tasks[i] = bullpen.Task{Name: "echo", Payload: fmt.Append(nil, rand.Int())}
		}
		for i, e := range p.ExecuteAll(within(s.t, 60*time.Second), tasks) {
			o, started := bullpen.OutcomeOf(e.Err)
			if !started {
				s.never++
				if all {
					s.t.Errorf("a task never started: %v", e.Err)
				}
				continue
			}
			s.outcomes[o]++
			switch {
			case o == bullpen.OK && string(e.Result.Payload) != string(tasks[i].Payload):
				s.t.Errorf("the result is %q, want %q", e.Result.Payload, tasks[i].Payload)
			case o == bullpen.OK, o == bullpen.Crashed, o == bullpen.Lost: // workers are killed
			case o == bullpen.Canceled && !all:
			case o == bullpen.Protocol && s.config.Protocol != Exec: // killed, and it was seen late
			default:
				s.t.Errorf("a task ended as %v: %v", o, e.Err)
			}
		}
	}
}

// TestSoakWithBudget has room for fewer workers than the pools want.
func TestSoakWithBudget(t *testing.T) {
	leak.Check(t)
	const most = 9
	b := budget(t, BudgetConfig{Workers: most, Memory: most * DefaultNeed, Starts: 500})
	done, watched := make(chan struct{}), make(chan struct{})
	go func() { // ends when the pools have, and is waited for
		defer close(watched)
		every(ms, done, func() {
			if s := b.Stats(); s.Workers > most {
				t.Errorf("the budget says %+v", s)
			}
		})
	}()
	until := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup // not tests of their own: only as many of these run at a time as there are processors
	for _, c := range []Config{
		{Command: []string{self()}}, {Command: []string{self()}}, {Command: []string{"cat"}, Protocol: Lines}, {Command: []string{"cat"}, Protocol: Exec},
	} {
		c.Budget, c.Need = b, 1<<20
		s := &budgetSoak{t: t, config: c, soak: &soak{t: t}}
		all.Go(func() { s.run(until) })
	}
	all.Wait()
	close(done)
	<-watched
	if s := b.Stats(); s.Workers != 0 || s.Waiting != 0 || s.Pools != 0 || s.Memory != 0 || s.Promised != 0 {
		t.Errorf("when all pools have ended, the budget says %+v", s)
	}
}
