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
	// claimPause and claimPauseMost are between two looks for a slot that another
	// node has.
	claimPause     = 10 * time.Millisecond
	claimPauseMost = time.Second
	// rateChunk is for how long a node takes from the rate of a group at a time.
	rateChunk = 50 * time.Millisecond
	// staleLeases is after how many leases without a renewal a node's slots are
	// free; it uses them for one lease after its last.
	staleLeases = 1.25
	// askers is how many groups are asked for at the same time.
	askers = 16
)

// slots is how many jobs of a group may run in this program. On a store that
// others share these are slots of its own, for which it asks. b.mu is held.
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

// token takes one of the tokens of a group's rate, or says how long until there may
// be one. b.mu is held.
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
	return b.owner.Config.Lease // asking ends it
}

// ask asks the store for slots and tokens of a group. b.mu is held.
func (b *Backlog) ask(g *group) {
	if g.claim.asking {
		g.claim.again = true
		return
	}
	// It ends when it has an answer, at the latest with live.
	g.claim.asking = b.owner.SpawnLocked(func() { b.asks(g) })
}

// asks runs until nothing more is to be asked for a group.
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

// wakeAgain looks again after a pause. b.mu is held.
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

// claimTries bounds how often a race for one record is run.
const claimTries = 8

// askOnce takes what the group needs here and gives back what it does not. It tells
// whether there is more than before.
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
				q.Damaged(b.name, "", err) // it is written anew
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

// want writes into a record what this node is to have of a group.
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

// upkeep renews what this node has of a group, and gives back what it has no use
// for. b.mu is held.
func (b *Backlog) upkeep(g *group, now time.Time) {
	if !b.shared {
		return
	}
	c := &g.claim
	if c.have > 0 && (now.Sub(c.renewed) > b.owner.Config.Lease/3 || c.have > g.running+g.waiting) {
		b.ask(g)
	}
}

// giveUp gives back at once the slots that another node wants and this one has no
// use for.
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

// giveUp gives back the slots of a group that another node may want and that this
// one has no use for. b.mu is held.
func (b *Backlog) giveUp(g *group) {
	if g.claim.have > g.running+g.waiting && (b.closed || time.Since(b.wanted) < 2*claimPauseMost) {
		b.ask(g)
	}
}

// release gives back the slots of all groups, but for those of jobs that still run,
// when the queue closes. What it cannot give back is free when it is stale.
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

// contend looks at once for slots that another node has given back.
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
