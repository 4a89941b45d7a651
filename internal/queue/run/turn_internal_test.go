package run

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

func TestTurnsByWeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want [job.Priorities]int // of a round
		busy []job.Priority
	}{
		{[job.Priorities]int{job.High: 8, job.Normal: 4, job.Low: 1}, []job.Priority{job.High, job.Normal, job.Low}},
		{[job.Priorities]int{job.High: 8, job.Low: 1}, []job.Priority{job.High, job.Low}},
		{[job.Priorities]int{job.Normal: 4, job.Low: 1}, []job.Priority{job.Normal, job.Low}},
		{[job.Priorities]int{job.High: 2, job.Normal: 1}, []job.Priority{job.High, job.Normal}},
		{[job.Priorities]int{job.Low: 1}, []job.Priority{job.Low}},
		{[job.Priorities]int{}, nil},
	} {
		var s smooth
		wants := func(p job.Priority) bool { return c.want[p] > 0 }
		round := c.want[job.High] + c.want[job.Normal] + c.want[job.Low]
		for n := range 100 {
			var got [job.Priorities]int
			for range round {
				p, ok := s.next(wants)
				if !ok {
					t.Fatalf("%v: nobody's turn", c.busy)
				}
				got[p]++
			}
			if got != c.want {
				t.Fatalf("%v: round %d has %v, want %v", c.busy, n, got, c.want)
			}
		}
		if p, ok := s.next(func(job.Priority) bool { return false }); ok {
			t.Errorf("%v: it is the turn of %v, who wants nothing", c.busy, p)
		}
	}
}

// TestNobodyStarves lets levels come and go; whoever wants has its turn within
// two rounds.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	var s smooth
	var wants [job.Priorities]bool
	var waited [job.Priorities]int
	for range 100_000 {
		for p := range wants {
			if rnd.IntN(20) == 0 {
				wants[p] = !wants[p]
			}
		}
		got, ok := s.next(func(p job.Priority) bool { return wants[p] })
		if any := wants[job.High] || wants[job.Normal] || wants[job.Low]; ok != any || ok && !wants[got] {
			t.Fatalf("it is the turn of %v (%v), and %v want", got, ok, wants)
		}
		for p := range wants {
			if waited[p]++; !wants[p] || ok && int(got) == p {
				waited[p] = 0
			}
			if waited[p] > 2*13 {
				t.Fatalf("%v has waited for %d turns", job.Priority(p), waited[p])
			}
		}
	}
}

func TestStrictTurns(t *testing.T) {
	t.Parallel()
	r := &runner{config: Config{Strict: true}}
	for _, c := range []struct {
		wants [job.Priorities]bool
		want  job.Priority
		ok    bool
	}{
		{[job.Priorities]bool{true, true, true}, job.High, true},
		{[job.Priorities]bool{job.Normal: true, job.Low: true}, job.Normal, true},
		{[job.Priorities]bool{job.Low: true}, job.Low, true},
		{[job.Priorities]bool{}, 0, false},
	} {
		for range 100 {
			if p, ok := r.pick(func(p job.Priority) bool { return c.wants[p] }); p != c.want || ok != c.ok {
				t.Fatalf("of %v it is the turn of %v (%v), want %v", c.wants, p, ok, c.want)
			}
		}
	}
}

// silent is a receipt that nobody looks at.
type silent struct{}

func (silent) Ack()                                 {}
func (silent) End(_ []engine.Put, done func(error)) { done(nil) }
func (silent) Nak(time.Duration)                    {}
func (silent) Extend()                              {}
func (silent) Begin()                               {}

// source is a consumer of one level that a test plays, and its taker.
type source struct {
	level     job.Priority
	backlog   int
	now, wait int // requested and not come
	recalled  bool
}

func (s *source) Stop()   {}
func (s *source) Recall() { s.recalled = true }
func (s *source) Request(n int, wait bool) {
	if wait {
		s.wait += n
	} else {
		s.now += n
	}
}

// deliver gives one job, if there is one and it was asked for; else it returns
// what was asked for now, and what was recalled.
func (s *source) deliver(r *runner) {
	switch {
	case s.recalled && s.wait > 0:
		n := s.wait
		s.wait, s.recalled = 0, false
		r.takeIn(&arrival{level: s.level, returned: n})
	case s.backlog > 0 && s.now+s.wait > 0:
		if s.backlog--; s.now > 0 {
			s.now--
		} else {
			s.wait--
		}
		j := &record.Job{ID: newID(), Job: job.Job{Name: "a"}}
		r.takeIn(&arrival{level: s.level, delivery: engine.Delivery{
			Message:    engine.Message{Subject: engine.JobSubject(r.consumer(s.level), j.ID), Data: j.Encode()},
			Receipt:    silent{},
			Deliveries: 1, Waiting: uint64(s.backlog),
		}})
	case s.backlog == 0 && s.now > 0:
		n := s.now
		s.now = 0
		r.takeIn(&arrival{level: s.level, returned: n})
	}
}

// played is a runner whose takers and executor the test plays.
type played struct {
	*runner

	sources [job.Priorities]*source
	running []func(bullpen.Result, error)
	places  int
}

func (p *played) Capacity() int { return max(0, p.places-len(p.running)) }
func (p *played) end(i int) {
	done := p.running[i]
	p.running = append(p.running[:i], p.running[i+1:]...)
	done(bullpen.Result{}, nil)
}

func play(t *testing.T, places int, c Config) *played {
	t.Helper()
	p := &played{places: places}
	c.Queue = "default"
	e := &playedExecutor{played: p}
	e.submit = func(_ context.Context, _ bullpen.Task, done func(bullpen.Result, error)) error {
		p.running = append(p.running, done)
		return nil
	}
	r := &runner{queue: openNode(t, usualConfig()), executor: e, config: c, counters: new(jobs.Counters), wake: make(chan struct{}, 1), left: make(chan struct{})}
	r.jobs, r.abortJobs = context.WithCancelCause(context.Background())
	t.Cleanup(func() {
		for len(p.running) > 0 {
			p.end(0)
		}
	})
	for i := range p.sources {
		p.sources[i] = &source{level: job.Priority(i)}
		r.levels[i].taker = p.sources[i]
	}
	r.levels[job.Normal].active = true
	p.runner = r
	return p
}

type playedExecutor struct {
	submit
	played *played
}

func (e *playedExecutor) Capacity() int { return e.played.Capacity() }

// TestAskCounts lets jobs arrive by chance at all levels. What the runner takes
// for requested is what is; it never asks for more than there are places, but for
// the standing request of each other level; and when there is nothing more to
// come, all places are filled as long as jobs wait.
func TestAskCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		places int
		config Config
	}{
		{"one place", 1, Config{}},
		{"four places", 4, Config{}},
		{"four places of which two are ours", 4, Config{Concurrency: 2}},
		{"strict", 4, Config{Strict: true}},
		{"many places", 64, Config{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(5, uint64(c.places)))
			p := play(t, c.places, c.config)
			places := c.places
			if c.config.Concurrency > 0 {
				places = c.config.Concurrency
			}
			worst := 0
			for range 20_000 {
				s := p.sources[rnd.IntN(job.Priorities)]
				switch rnd.IntN(4) {
				case 0:
					s.backlog += rnd.IntN(4)
				case 1:
					s.deliver(p.runner)
				case 2:
					if len(p.running) > 0 {
						p.end(rnd.IntN(len(p.running)))
					}
				default:
					p.ask()
				}
				p.counts(t)
				worst = max(worst, p.requested()+len(p.running)-places)
			}
			if worst > job.Priorities-1 {
				t.Errorf("at times %d jobs more than there are places (%d) were taken or asked for, want %d at most: one standing request of each other level", worst, places, job.Priorities-1)
			}
			p.fills(t, places)
		})
	}
}

func (p *played) requested() (n int) {
	for _, s := range p.sources {
		n += s.now + s.wait
	}
	return n
}

func (p *played) counts(t *testing.T) {
	t.Helper()
	for i, s := range p.sources {
		l := &p.levels[i]
		if l.asked+l.standing != s.now+s.wait || l.asked < 0 || l.standing < 0 {
			t.Fatalf("%v: %d and %d (standing) are noted as requested, and %d and %d are", job.Priority(i), l.asked, l.standing, s.now, s.wait)
		}
	}
	if held := int(p.held.Load()); held != len(p.running) {
		t.Fatalf("%d jobs are noted as in the executor, which has %d", held, len(p.running))
	}
}

// fills checks that jobs that wait get all places in the end, whatever levels
// they are of.
func (p *played) fills(t *testing.T, places int) {
	t.Helper()
	for _, only := range [][]job.Priority{{job.Low, job.Normal, job.High}, {job.Low}, {job.High}, {job.Normal}, {job.Low}, {job.Normal, job.Low}} {
		for i, s := range p.sources {
			if s.backlog = 0; slices.Contains(only, job.Priority(i)) {
				s.backlog = 1000
			}
		}
		for len(p.running) > 0 {
			p.end(0)
		}
		for range 50 {
			p.ask()
			for _, s := range p.sources {
				for range 4 {
					s.deliver(p.runner)
				}
			}
		}
		if len(p.running) < places {
			t.Errorf("jobs wait at %v, and %d of %d places are used", only, len(p.running), places)
		}
	}
}

// TestAskIsFair has all levels full: of the jobs that start 8 of 13 are high, 4
// normal, and one is low.
func TestAskIsFair(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 4, 13} {
		p := play(t, places, Config{})
		var started [job.Priorities]int
		for _, s := range p.sources {
			s.backlog = 1 << 20
		}
		const rounds = 30
		for range rounds * 13 {
			p.ask()
			for i, s := range p.sources {
				for range s.now + s.wait {
					s.deliver(p.runner)
					started[i]++
				}
			}
			for range len(p.running) {
				p.end(0)
			}
		}
		all := started[job.High] + started[job.Normal] + started[job.Low]
		for level, weight := range weights {
			if share := 13 * float64(started[level]) / float64(all); share < 0.9*float64(weight) || share > 1.1*float64(weight) {
				t.Errorf("%d places: %v has %.2f of 13 starts, want %d (%v)", places, job.Priority(level), share, weight, started)
			}
		}
	}
}
