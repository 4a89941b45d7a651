package run

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// limitsOf gives the limits of a group. y.mu is held.
func (y *backlog) limitsOf(name string) (l job.GroupLimits, own bool) {
	if l, own = y.set[name]; own && name != "" {
		return l, true
	}
	if l, set := y.set[""]; set {
		return l, false
	}
	return y.defaults, false
}

// quiet ends what a group waits for. y.mu is held.
func (y *backlog) quiet(g *group) {
	if g.wake != nil {
		g.wake.Stop()
		g.wake = nil
	}
}

// drop forgets a group that has nothing. One with a rate is kept until its bucket
// is full, or it would be full at once. y.mu is held.
func (y *backlog) drop(g *group) {
	if g.waiting > 0 || g.running > 0 || g.claim.held() || g.inRing() {
		return
	}
	if g.limits.Rate > 0 && !g.bucket.at.IsZero() {
		g.bucket.fill(g.limits, time.Now())
		if g.bucket.tokens < g.limits.AtOnce() {
			return
		}
	}
	if y.groups[g.name] == g {
		y.quiet(g)
		delete(y.groups, g.name)
	}
}

// remove takes out a job that is canceled, and ends it in the store.
func (y *backlog) remove(id string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	k := y.jobs[id]
	if k == nil {
		return false
	}
	if !k.late {
		k.group.lanes[k.level].count--
	}
	y.forget(k)
	k.delivery.Ack()
	y.drop(k.group)
	y.fill(k.level)
	return true
}

// keeps is how many jobs of a priority wait here, and how many of them for the
// limits of their groups.
func (y *backlog) keeps(p job.Priority) (all, held int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, g := range y.groups {
		if g.blocked {
			held += g.lanes[p].count
		}
	}
	return y.waiting[p], held
}

// pause holds all turns, or lets them go on.
func (y *backlog) pause(paused bool) {
	y.mu.Lock()
	y.paused = paused
	y.mu.Unlock()
	y.signal()
}

// limit takes the limits that are set.
func (y *backlog) limit(set map[string]job.GroupLimits) {
	y.mu.Lock()
	y.set, y.looked = set, time.Now()
	for _, g := range y.groups {
		before := g.limits
		if g.limits, g.own = y.limitsOf(g.name); g.limits == before {
			continue
		}
		if g.bucket.tokens = min(g.bucket.tokens, g.limits.AtOnce()); g.limits.Rate == 0 {
			g.bucket = bucket{}
		}
		y.quiet(g)
		y.unblock(g)
	}
	y.mu.Unlock()
	y.signal()
}

// signPause is how often signs of life are given, a part of them each time, so that
// many do not come together.
const signPause = 100 * time.Millisecond

// tick sets the timer that gives signs of life. y.mu is held.
func (y *backlog) tick() {
	if y.ticking == nil && y.takers[job.Normal] != nil {
		// Its goroutine ends at once; stop ends it before it begins.
		y.ticking = time.AfterFunc(min(signPause, y.queue.Config.Lease/12), y.ticked)
	}
}

// ticked gives signs of life for what is kept, and looks for what is overdue.
func (y *backlog) ticked() {
	now := time.Now()
	y.mu.Lock()
	y.ticking = nil
	due := y.due(now)
	late := y.expire(now)
	if now.Sub(y.upkept) >= y.queue.Config.Lease/12 {
		y.upkept = now
		for p := range y.rings {
			y.runnable.Add(-int64(y.rings[p].dropEmpty(job.Priority(p))))
		}
		for _, g := range y.groups {
			y.upkeep(g, now)
			y.drop(g)
		}
	}
	if len(y.groups) > 0 {
		y.tick()
	}
	stale := y.shared && now.Sub(y.looked) >= limitsAge
	if stale {
		y.looked = now
	}
	y.mu.Unlock()
	if late {
		y.signal()
	}
	for _, r := range due {
		r.Extend()
	}
	if stale {
		y.queue.Spawn(y.look) // ends with its calls, at the latest with live
	}
}

// due returns those whose sign of life is due: after half the lease, or before that
// so many that all have had one by then. y.mu is held.
func (y *backlog) due(now time.Time) (all []engine.Receipt) {
	half := y.queue.Config.Lease / 2
	pause := min(signPause, y.queue.Config.Lease/12)
	share := int(float64(len(y.signs))*float64(pause)/float64(half)) + 1
	n := 0
	for most := len(y.signs); n < most; n++ {
		k := y.signs[n]
		if k.gone {
			continue
		}
		if since := now.Sub(k.extended); since < half && (len(all) >= share || since < half/2) {
			break
		}
		k.extended = now
		all = append(all, k.delivery.Receipt)
		y.signs = append(y.signs, k)
	}
	clear(y.signs[:n])
	y.signs = y.signs[n:]
	return all
}

// look reads what other nodes may have changed.
func (y *backlog) look() {
	q := y.queue
	if set, err := q.setLimits(q.Live, y.name); err == nil {
		y.limit(set)
	}
	plain, err := q.Engine.Depth(q.Live, engine.Consumer{Queue: y.name, Priority: job.Normal.String()})
	if err == nil {
		y.pause(plain.Paused)
	} else if !q.Hopeless(err) && !errors.Is(err, engine.ErrNotFound) {
		q.Journal.Emit(job.Event{Kind: job.NotKept, Queue: y.name, Text: "the limits of its groups: " + err.Error()})
	}
}
