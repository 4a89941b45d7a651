package group

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Job is a job with a group that this program has taken and that waits for its turn.
// The lock of its backlog guards its fields until Next has given it; then they are the
// caller's.
type Job struct {
	ID       string
	Delivery engine.Delivery
	Stored   *record.Job // nil where it is to be read again, with the Data of Delivery
	Came     time.Time
	Renewed  time.Time // when its lease was last renewed
	Late     bool      // its deadline has passed: it waits in no lane, and for no limit

	group    *group
	level    job.Priority
	deadline time.Time // zero for none
	gone     bool      // it no longer waits
}

// group is what a backlog knows of one group. Its fields are guarded by the lock of
// the backlog.
type group struct {
	name    string
	limits  job.GroupLimits
	own     bool // they were set for it
	lanes   [job.Priorities]lane
	waiting int // in all lanes
	running int // begun and not freed
	blocked bool
	wake    *time.Timer // of its rate; nil while it waits for none
	bucket  bucket
	claim   claim
	pace    pace
}

// lane is the jobs of a group of one priority, in the order in which they came.
type lane struct {
	jobs   []*Job // some of them gone
	count  int    // of those that are not
	inRing bool   // it has its turn among the groups of its priority
}

// inRing reports whether the group has turns, be it with nothing.
func (g *group) inRing() bool {
	for i := range g.lanes {
		if g.lanes[i].inRing {
			return true
		}
	}
	return false
}

func (l *lane) push(k *Job) {
	l.jobs = append(l.jobs, k)
	l.count++
}

// pop takes out the first that is there, nil when there is none.
func (l *lane) pop() *Job {
	for len(l.jobs) > 0 {
		k := l.jobs[0]
		l.jobs[0] = nil
		if l.jobs = l.jobs[1:]; len(l.jobs) == 0 {
			l.jobs = nil // what was taken from its front is let go
		}
		if !k.gone && !k.Late {
			l.count--
			return k
		}
	}
	return nil
}

// oldest returns the first that is there, nil when there is none.
func (l *lane) oldest() *Job {
	for _, k := range l.jobs {
		if !k.gone && !k.Late {
			return k
		}
	}
	return nil
}

// bucket lets jobs begin at a rate.
type bucket struct {
	tokens float64
	at     time.Time // when there were so many
}

// fill counts what has come since.
func (b *bucket) fill(l job.GroupLimits, now time.Time) {
	most := l.AtOnce()
	if b.at.IsZero() {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+now.Sub(b.at).Seconds()*l.Rate)
	}
	b.at = now
}

// wait is how long until there is one more token than there are.
func (b *bucket) wait(l job.GroupLimits) time.Duration {
	missing := max(1-b.tokens, 0)
	return time.Duration(math.Ceil(missing / l.Rate * float64(time.Second)))
}

// pace is how often jobs of a group begin here, and when the next of those that
// are put aside is to come again.
type pace struct {
	every time.Duration // a running mean
	last  time.Time
	next  time.Time // for those that come for the first time
	back  time.Time // for those that have come again too soon
}

const (
	firstPace = 5 * time.Millisecond
	slowPace  = 30 * time.Second
	soonest   = 100 * time.Millisecond
	// longestAside bounds how long a job is put aside: its group may go faster by then.
	longestAside = 5 * time.Minute
)

// began counts one that begins.
func (p *pace) began(now time.Time) {
	if !p.last.IsZero() {
		gap := min(now.Sub(p.last), slowPace)
		if p.every == 0 {
			p.every = gap
		}
		p.every += (gap - p.every) / 8
	}
	p.last = now
}

// now is the time between two that begin, as far as is known.
func (p *pace) now(now time.Time) time.Duration {
	if p.every == 0 {
		return firstPace
	}
	return max(p.every, min(now.Sub(p.last), slowPace), time.Microsecond)
}

// second is about how many begin in a second.
func (p *pace) second() int {
	if p.every == 0 {
		return fewest
	}
	return min(max(int(time.Second/max(p.every, time.Microsecond)), fewest), plenty)
}

// aside returns when one more that is put aside is to come again, where so many
// are kept. They come twice as fast as they begin, so that there are always some,
// and the pace is not that of the waiting. Those that come too soon stand in a line
// of their own, behind what is kept, and not behind all others.
func (p *pace) aside(now time.Time, again bool, kept int) time.Time {
	half := p.now(now) / 2
	at, line := now.Add(soonest), &p.next
	if again {
		at, line = now.Add(max(min(time.Duration(kept)*half, slowPace), soonest)), &p.back
	}
	if line.After(at) {
		at = *line
	}
	if at.After(now.Add(longestAside)) {
		return now.Add(longestAside - time.Duration(rand.Float64()*float64(longestAside)/4))
	}
	*line = at.Add(half)
	return at
}
