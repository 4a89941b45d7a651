package group

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
	// claimPause and claimPauseMost are the shortest and longest pause between two
	// attempts to get a slot that another node holds.
	claimPause     = 10 * time.Millisecond
	claimPauseMost = time.Second
	// rateChunk is the time for which a node takes tokens of a group's rate at once.
	rateChunk = 50 * time.Millisecond
	// staleLeases is the number of leases without a renewal after which a node's slots
	// are free. The node itself stops using them one lease after its last renewal.
	staleLeases = 1.25
	// askers is for how many groups the store is asked concurrently.
	askers = 16
)

// slots returns how many jobs of a group may run in this program. On a shared store these
// are the node's own slots; slots asks for more if they are used up. b.mu is held.
func (b *Backlog) slots(g *group, most int, now time.Time) int {
	if !b.shared {
		return most
	}
	have := min(g.claim.have, most)
	if now.Sub(g.claim.renewed) > b.owner.Config.Lease {
		have = 0
	}
	if g.running >= have && have < most {
		b.ask(g)
	}
	return have
}

// token takes one token of a group's rate, or returns how long to wait for the next. b.mu
// is held.
func (b *Backlog) token(g *group, now time.Time) time.Duration {
	if !b.shared {
		g.bucket.fill(g.limits, now)
	}
	if g.bucket.tokens >= 1 {
		g.bucket.tokens--
		return 0
	}
	if !b.shared {
		return g.bucket.wait(g.limits)
	}
	b.ask(g)
	return b.owner.Config.Lease // wakes earlier, when ask has its answer
}

// ask requests slots and tokens of a group from the store. b.mu is held.
func (b *Backlog) ask(g *group) {
	if g.claim.asking {
		g.claim.again = true
		return
	}
	// Ends when it has an answer, at the latest with Live.
	g.claim.asking = b.owner.SpawnLocked(func() { b.asks(g) })
}

// asks calls askOnce until the group needs nothing more.
func (b *Backlog) asks(g *group) {
	for got := false; ; {
		more, err := b.askOnce(b.owner.Live, g)
		got = got || more
		b.mu.Lock()
		again := g.claim.again && err == nil
		g.claim.again = false
		if !again || b.owner.Live.Err() != nil {
			g.claim.asking = false
			if got {
				g.claim.tries = 0
				b.quiet(g)
				b.unblock(g)
			} else if g.blocked && g.waiting > 0 && !b.closed {
				b.wakeAgain(g)
			}
			b.drop(g)
			b.mu.Unlock()
			if got {
				b.signal()
			}
			return
		}
		b.mu.Unlock()
	}
}

// wakeAgain lets a group try again after a pause. b.mu is held.
func (b *Backlog) wakeAgain(g *group) {
	pause := claimPauseMost
	if n := g.claim.tries; n < 7 {
		pause = claimPause << n
	}
	if g.claim.tries++; g.claim.tries > 1 {
		b.owner.Tell("want", b.name)
	}
	if g.limits.Rate > 0 {
		pause = min(pause, max(time.Duration(float64(time.Second)/g.limits.Rate), time.Millisecond))
	}
	pause -= time.Duration(rand.Float64() * float64(pause) / 4)
	b.quiet(g)
	b.wakeLater(g, pause)
}

// claimTries bounds how often askOnce competes for one record.
const claimTries = 8

// askOnce takes the slots and tokens that the group needs here, and gives back those it
// does not need. It reports whether the node has more than before.
func (b *Backlog) askOnce(ctx context.Context, g *group) (got bool, err error) {
	q := b.owner
	subject := "set.slot." + b.name + "." + record.GroupToken(g.name)
	for range claimTries {
		var s record.Slots
		put := engine.Put{Stream: engine.State, Subject: subject, New: true}
		m, err := q.Engine.Get(ctx, engine.State, subject)
		switch {
		case err == nil:
			put.New, put.After = false, m.Seq
			if s, err = record.DecodeSlots(subject, m.Data); err != nil {
				q.Damaged(b.name, "", err) // it is overwritten
			}
		case !errors.Is(err, engine.ErrNotFound):
			return false, err
		}
		sent := time.Now()
		slots, tokens, change := b.want(g, &s, m, sent)
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
		return b.got(g, slots, tokens, sent), nil
	}
	return false, nil
}

// want changes a record to what this node needs of a group.
func (b *Backlog) want(g *group, s *record.Slots, m engine.Message, now time.Time) (slots int, tokens float64, change bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, c := b.owner, &g.claim
	c.expire(s, q.Self, now, time.Duration(staleLeases*float64(q.Config.Lease)))
	if most := g.limits.Concurrency; most > 0 {
		free := max(most-s.Others(q.Self), 0)
		slots = max(min(g.running+g.waiting, free), min(g.running, c.have))
	}
	if g.limits.Rate > 0 {
		tokens = c.tokens(g, s, m, now)
	}
	if slots > 0 || c.have > 0 {
		change = slots != c.have || now.Sub(c.renewed) > q.Config.Lease/4
		s.Give(q.Self, slots)
	}
	return slots, tokens, change || tokens > 0
}

// tokens takes tokens out of a record. New tokens are counted by the clock of the store:
// those between the last two changes of the record, and those since this node first saw
// the last change.
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

// got stores what this node has from now on, and reports whether that is more than
// before.
func (b *Backlog) got(g *group, slots int, tokens float64, sent time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &g.claim
	more, less := slots > c.have || tokens > 0, slots < c.have
	c.have, c.renewed = slots, sent
	g.bucket.tokens += tokens
	if less {
		b.owner.Tell("slots", b.name)
	}
	return more
}

// upkeep renews what this node has of a group, and gives back what it does not need. b.mu
// is held.
func (b *Backlog) upkeep(g *group, now time.Time) {
	if !b.shared {
		return
	}
	c := &g.claim
	if c.have > 0 && (now.Sub(c.renewed) > b.owner.Config.Lease/3 || c.have > g.running+g.waiting) {
		b.ask(g)
	}
}

// giveUp gives back at once the slots that this node does not need and another requests.
func (q *Groups) giveUp(queue string) {
	b := q.backlog(queue)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = time.Now()
	for _, g := range b.groups {
		b.giveUp(g)
	}
}

// giveUp gives back the slots of a group that this node does not need, if another node
// recently requested slots. b.mu is held.
func (b *Backlog) giveUp(g *group) {
	if g.claim.have > g.running+g.waiting && (b.closed || time.Since(b.wanted) < 2*claimPauseMost) {
		b.ask(g)
	}
}

// release gives back the slots of all groups when the queue closes, except those of
// running jobs. Slots it cannot give back become free when they are stale.
func (b *Backlog) release(ctx context.Context) {
	var held []*group
	b.mu.Lock()
	for _, g := range b.groups {
		if g.claim.have > g.running {
			held = append(held, g)
		}
	}
	b.mu.Unlock()
	next := make(chan *group)
	var all sync.WaitGroup
	for range min(askers, len(held)) {
		all.Go(func() { // ends when next is closed, which release waits for
			for g := range next {
				if ctx.Err() == nil {
					b.askOnce(ctx, g) //nolint:errcheck // see above
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

// contend tries at once to get slots that another node has given back.
func (q *Groups) contend(queue string) {
	b := q.backlog(queue)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if g.blocked && g.waiting > 0 && g.limits.Concurrency > 0 {
			b.ask(g)
		}
	}
}
