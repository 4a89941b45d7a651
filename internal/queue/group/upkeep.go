package group

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// limitsOf returns the limits of a group. b.mu is held.
func (b *Backlog) limitsOf(name string) (l job.GroupLimits, own bool) {
	if l, own = b.set[name]; own && name != "" {
		return l, true
	}
	if l, set := b.set[""]; set {
		return l, false
	}
	return b.defaults, false
}

// quiet stops the timer that waits for a group's rate. b.mu is held.
func (b *Backlog) quiet(g *group) {
	if g.wake != nil {
		g.wake.Stop()
		g.wake = nil
	}
}

// drop forgets a group without jobs. A group with a rate is kept until its bucket is
// full: a new group would start with a full one. b.mu is held.
func (b *Backlog) drop(g *group) {
	if g.waiting > 0 || g.running > 0 || g.claim.held() || g.inRing() {
		return
	}
	if g.limits.Rate > 0 && !g.bucket.at.IsZero() {
		g.bucket.fill(g.limits, time.Now())
		if g.bucket.tokens < g.limits.AtOnce() {
			return
		}
	}
	if b.groups[g.name] == g {
		b.quiet(g)
		delete(b.groups, g.name)
	}
}

// remove takes out a canceled job and ends it in the store.
func (b *Backlog) remove(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.jobs[id]
	if k == nil {
		return false
	}
	if !k.Late {
		k.group.lanes[k.level].count--
	}
	b.forget(k)
	k.Delivery.Ack()
	b.drop(k.group)
	b.fill(k.level)
	return true
}

// keeps returns how many jobs of a priority wait here, and how many of them wait for the
// limits of their groups.
func (b *Backlog) keeps(p job.Priority) (all, held int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if g.blocked {
			held += g.lanes[p].count
		}
	}
	return b.waiting[p], held
}

// pause stops all turns, or resumes them.
func (b *Backlog) pause(paused bool) {
	b.mu.Lock()
	b.paused = paused
	b.mu.Unlock()
	b.signal()
}

// limit applies the limits that are set.
func (b *Backlog) limit(set map[string]job.GroupLimits) {
	b.mu.Lock()
	b.set, b.looked = set, time.Now()
	for _, g := range b.groups {
		before := g.limits
		if g.limits, g.own = b.limitsOf(g.name); g.limits == before {
			continue
		}
		if g.bucket.tokens = min(g.bucket.tokens, g.limits.AtOnce()); g.limits.Rate == 0 {
			g.bucket = bucket{}
		}
		b.quiet(g)
		b.unblock(g)
	}
	b.mu.Unlock()
	b.signal()
}

// renewPause is the period between renewals. Each renews a part of the leases, so that
// they are spread over time.
const renewPause = 100 * time.Millisecond

// tick sets the timer that renews leases. b.mu is held.
func (b *Backlog) tick() {
	if b.ticking == nil && b.takers[job.Normal] != nil {
		// Its goroutine ends at once; stop stops the timer before it fires.
		b.ticking = time.AfterFunc(min(renewPause, b.owner.Config.Lease/12), b.ticked)
	}
}

// ticked renews the leases of waiting jobs, and handles what is overdue.
func (b *Backlog) ticked() {
	now := time.Now()
	b.mu.Lock()
	b.ticking = nil
	due := b.due(now)
	late := b.expire(now)
	if now.Sub(b.upkept) >= b.owner.Config.Lease/12 {
		b.upkept = now
		for p := range b.rings {
			b.runnable.Add(-int64(b.rings[p].dropEmpty(job.Priority(p))))
		}
		for _, g := range b.groups {
			b.upkeep(g, now)
			b.drop(g)
		}
	}
	if len(b.groups) > 0 {
		b.tick()
	}
	stale := b.shared && now.Sub(b.looked) >= limitsAge
	if stale {
		b.looked = now
	}
	b.mu.Unlock()
	if late {
		b.signal()
	}
	for _, r := range due {
		r.Extend()
	}
	if stale {
		b.owner.Spawn(b.look) // ends with its calls, at the latest with Live
	}
}

// due returns the receipts of the leases to renew: those past half the lease, and before
// that enough to have renewed all by then. b.mu is held.
func (b *Backlog) due(now time.Time) (all []engine.Receipt) {
	half := b.owner.Config.Lease / 2
	pause := min(renewPause, b.owner.Config.Lease/12)
	share := int(float64(len(b.renewals))*float64(pause)/float64(half)) + 1
	n := 0
	for most := len(b.renewals); n < most; n++ {
		k := b.renewals[n]
		if k.gone {
			continue
		}
		if since := now.Sub(k.Renewed); since < half && (len(all) >= share || since < half/2) {
			break
		}
		k.Renewed = now
		all = append(all, k.Delivery.Receipt)
		b.renewals = append(b.renewals, k)
	}
	clear(b.renewals[:n])
	b.renewals = b.renewals[n:]
	return all
}

// look reads what other nodes may have changed.
func (b *Backlog) look() {
	q := b.owner
	if set, err := q.setLimits(q.Live, b.name); err == nil {
		b.limit(set)
	}
	plain, err := q.Engine.Depth(q.Live, engine.Consumer{Queue: b.name, Priority: job.Normal.String()})
	if err == nil {
		b.pause(plain.Paused)
	} else if !q.Hopeless(err) && !errors.Is(err, engine.ErrNotFound) {
		q.Journal.Emit(job.Event{Kind: job.NotKept, Queue: b.name, Text: "the limits of its groups: " + err.Error()})
	}
}
