package run

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
)

const (
	// claimPause and claimPauseMost are between two looks for a place that another
	// node has.
	claimPause     = 10 * time.Millisecond
	claimPauseMost = time.Second
	// rateChunk is for how long a node takes from the rate of a group at a time.
	rateChunk = 50 * time.Millisecond
	// staleLeases is after how many leases without a sign of life a node's places
	// are free; it uses them for one lease after its last.
	staleLeases = 1.25
	// askers is how many groups are asked for at the same time.
	askers = 16
)

// places is how many jobs of a group may run in this program. On a store that
// others share these are places of its own, for which it asks. y.mu is held.
func (y *backlog) places(g *group, most int, now time.Time) int {
	if !y.shared {
		return most
	}
	have := min(g.claim.have, most)
	if now.Sub(g.claim.renewed) > y.queue.Config.Lease {
		have = 0
	}
	if g.running >= have && have < most {
		y.ask(g)
	}
	return have
}

// token takes one of the tokens of a group's rate, or says how long until there may
// be one. y.mu is held.
func (y *backlog) token(g *group, now time.Time) time.Duration {
	b := &g.bucket
	if !y.shared {
		if b.fill(g.limits, now); b.tokens >= 1 {
			b.tokens--
			return 0
		}
		return b.wait(g.limits)
	}
	if b.tokens >= 1 {
		b.tokens--
		return 0
	}
	y.ask(g)
	return y.queue.Config.Lease // asking ends it
}

// ask asks the store for places and tokens of a group. y.mu is held.
func (y *backlog) ask(g *group) {
	if g.claim.asking {
		g.claim.again = true
		return
	}
	// It ends when it has an answer, at the latest with live.
	g.claim.asking = y.queue.SpawnLocked(func() { y.asks(g) })
}

// asks runs until nothing more is to be asked for a group.
func (y *backlog) asks(g *group) {
	for got := false; ; {
		more, err := y.askOnce(y.queue.Live, g)
		got = got || more
		y.mu.Lock()
		again := g.claim.again && err == nil
		g.claim.again = false
		if !again || y.queue.Live.Err() != nil {
			g.claim.asking = false
			if got {
				g.claim.tries = 0
				y.quiet(g)
				y.unblock(g)
			} else if g.blocked && g.waiting > 0 && !y.closed {
				y.wakeAgain(g)
			}
			y.drop(g)
			y.mu.Unlock()
			if got {
				y.signal()
			}
			return
		}
		y.mu.Unlock()
	}
}

// wakeAgain looks again after a pause. y.mu is held.
func (y *backlog) wakeAgain(g *group) {
	pause := claimPauseMost
	if n := g.claim.tries; n < 7 {
		pause = claimPause << n
	}
	if g.claim.tries++; g.claim.tries > 1 {
		y.queue.tellNodes("want", y.name)
	}
	if g.limits.Rate > 0 {
		pause = min(pause, max(time.Duration(float64(time.Second)/g.limits.Rate), time.Millisecond))
	}
	pause -= time.Duration(rand.Float64() * float64(pause) / 4)
	y.quiet(g)
	y.wakeLater(g, pause)
}

// claimTries bounds how often a race for one record is run.
const claimTries = 8

// askOnce takes what the group needs here and gives back what it does not. It tells
// whether there is more than before.
func (y *backlog) askOnce(ctx context.Context, g *group) (got bool, err error) {
	q := y.queue
	subject := "set.slot." + y.name + "." + record.GroupToken(g.name)
	for range claimTries {
		var s record.Slots
		put := engine.Put{Stream: engine.State, Subject: subject, New: true}
		m, err := q.Engine.Get(ctx, engine.State, subject)
		switch {
		case err == nil:
			put.New, put.After = false, m.Seq
			if s, err = record.DecodeSlots(subject, m.Data); err != nil {
				q.Damaged(y.name, "", err) // it is written anew
			}
		case !errors.Is(err, engine.ErrNotFound):
			return false, err
		}
		sent := time.Now()
		places, tokens, change := y.want(g, &s, m, sent)
		if !change {
			return false, nil
		}
		put.Data = s.Encode(subject)
		err = q.Put(ctx, put)
		if errors.Is(err, engine.ErrConflict) {
			continue
		}
		if err != nil {
			return false, err
		}
		return y.got(g, places, tokens, sent), nil
	}
	return false, nil
}

// want writes into a record what this node is to have of a group.
func (y *backlog) want(g *group, s *record.Slots, m engine.Message, now time.Time) (places int, tokens float64, change bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	q, c := y.queue, &g.claim
	c.bury(s, q.Self, now, time.Duration(staleLeases*float64(q.Config.Lease)))
	if most := g.limits.Concurrency; most > 0 {
		free := max(most-s.Others(q.Self), 0)
		places = max(min(g.running+g.waiting, free), min(g.running, c.have))
	}
	if g.limits.Rate > 0 {
		tokens = c.tokens(g, s, m, now)
	}
	if places > 0 || c.have > 0 {
		change = places != c.have || now.Sub(c.renewed) > q.Config.Lease/4
		s.Give(q.Self, places)
	}
	return places, tokens, change || tokens > 0
}

// tokens takes tokens out of a record. Time is counted by the clock of the store:
// what has come between the last two changes of the record, and what has passed
// here since the last one was seen.
func (c *claim) tokens(g *group, s *record.Slots, m engine.Message, now time.Time) float64 {
	l := g.limits
	if c.read.beat != m.Seq {
		c.read = sighting{m.Seq, now}
	}
	if s.At.IsZero() {
		s.Tokens = l.AtOnce()
	} else {
		s.Tokens = min(l.AtOnce(), s.Tokens+max(m.Time.Sub(s.At).Seconds(), 0)*l.Rate)
	}
	since := now.Sub(c.read.since).Seconds() * l.Rate
	if s.At.IsZero() {
		since = 0
	}
	there := min(l.AtOnce(), s.Tokens+since)
	need := float64(g.waiting) - g.bucket.tokens
	take := math.Floor(min(there, need, max(1, l.Rate*rateChunk.Seconds())))
	if take < 1 {
		return 0
	}
	s.Tokens = there - since - take
	if s.At = m.Time; s.At.IsZero() {
		s.At = now
	}
	return take
}

// got notes what this node has from now on.
func (y *backlog) got(g *group, places int, tokens float64, sent time.Time) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	c := &g.claim
	more, less := places > c.have || tokens > 0, places < c.have
	c.have, c.renewed = places, sent
	g.bucket.tokens += tokens
	if less {
		y.queue.tellNodes("slots", y.name)
	}
	return more
}

// upkeep renews what this node has of a group, and gives back what it has no use
// for. y.mu is held.
func (y *backlog) upkeep(g *group, now time.Time) {
	if !y.shared {
		return
	}
	c := &g.claim
	if c.have > 0 && (now.Sub(c.renewed) > y.queue.Config.Lease/3 || c.have > g.running+g.waiting) {
		y.ask(g)
	}
}

// giveUp gives back at once the places that another node wants and this one has no
// use for.
func (q *Node) giveUp(queue string) {
	y := q.backlog(queue)
	if y == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.wanted = time.Now()
	for _, g := range y.groups {
		y.giveUp(g)
	}
}

// giveUp gives back the places of a group that another node may want and that this
// one has no use for. y.mu is held.
func (y *backlog) giveUp(g *group) {
	if g.claim.have > g.running+g.waiting && (y.closed || time.Since(y.wanted) < 2*claimPauseMost) {
		y.ask(g)
	}
}

// release gives back the places of all groups, but for those of jobs that still run,
// when the queue closes. What it cannot give back is free when it is stale.
func (y *backlog) release(ctx context.Context) {
	var held []*group
	y.mu.Lock()
	for _, g := range y.groups {
		if g.claim.have > g.running {
			held = append(held, g)
		}
	}
	y.mu.Unlock()
	next := make(chan *group)
	var all sync.WaitGroup
	for range min(askers, len(held)) {
		all.Go(func() { // ends when next is closed, which release waits for
			for g := range next {
				if ctx.Err() == nil {
					y.askOnce(ctx, g) //nolint:errcheck // see above
				}
			}
		})
	}
	for _, g := range held {
		next <- g
	}
	close(next)
	all.Wait()
}

// contend looks at once for places that another node has given back.
func (q *Node) contend(queue string) {
	y := q.backlog(queue)
	if y == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, g := range y.groups {
		if g.blocked && g.waiting > 0 && g.limits.Concurrency > 0 {
			y.ask(g)
		}
	}
}
