package group

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Job is a job with a group that this program has taken and that waits for its turn. The
// lock of its backlog guards its fields until Next returns it; then the caller of Next
// owns them.
type Job struct {
	ID       string
	Delivery engine.Delivery
	Stored   *record.Job // nil if it is to be read again, with the Data of Delivery
	Came     time.Time
	Renewed  time.Time // when its lease was last renewed
	Late     bool      // its deadline has passed: it is in no lane and ignores limits

	group    *group
	level    job.Priority
	deadline time.Time // zero for none
	gone     bool      // it no longer waits
}

// group is the state of one group in a backlog. Its fields are guarded by the lock of the
// backlog.
type group struct {
	name    string
	limits  job.GroupLimits
	own     bool // the limits were set for this group
	lanes   [job.Priorities]lane
	waiting int // jobs in all lanes
	running int // jobs that began and are not freed
	blocked bool
	wake    *time.Timer // waits for the rate; nil if it does not
	bucket  bucket
	claim   claim
	pace    pace
}

// lane holds the jobs of a group of one priority, in the order in which they came.
type lane struct {
	jobs   []*Job // some of them are gone
	count  int    // jobs that are not gone
	inRing bool   // the group has its turns at this priority
}

// inRing reports whether the group has turns, even if it has no jobs.
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

// pop removes and returns the first job that is not gone, nil for none.
func (l *lane) pop() *Job {
	for len(l.jobs) > 0 {
		k := l.jobs[0]
		l.jobs[0] = nil
		if l.jobs = l.jobs[1:]; len(l.jobs) == 0 {
			l.jobs = nil // frees what was taken from its front
		}
		if !k.gone && !k.Late {
			l.count--
			return k
		}
	}
	return nil
}

// oldest returns the first job that is not gone, nil for none.
func (l *lane) oldest() *Job {
	for _, k := range l.jobs {
		if !k.gone && !k.Late {
			return k
		}
	}
	return nil
}

// bucket is a token bucket, which limits the rate at which jobs begin.
type bucket struct {
	tokens float64
	at     time.Time // when tokens was computed
}

// fill adds the tokens that came since.
func (b *bucket) fill(l job.GroupLimits, now time.Time) {
	most := l.AtOnce()
	if b.at.IsZero() {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+now.Sub(b.at).Seconds()*l.Rate)
	}
	b.at = now
}

// wait returns how long until there is one more token.
func (b *bucket) wait(l job.GroupLimits) time.Duration {
	missing := max(1-b.tokens, 0)
	return time.Duration(math.Ceil(missing / l.Rate * float64(time.Second)))
}

// pace measures how often jobs of a group begin here, and plans when the next job that is
// put aside comes again.
type pace struct {
	every time.Duration // a running mean of the time between two begins
	last  time.Time
	next  time.Time // for jobs put aside for the first time
	back  time.Time // for jobs that came again too soon
}

const (
	firstPace = 5 * time.Millisecond
	slowPace  = 30 * time.Second
	soonest   = 100 * time.Millisecond
	// longestAside bounds how long a job is put aside: its group may go faster by then.
	longestAside = 5 * time.Minute
)

// began records that a job begins.
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

// now returns the time between two begins, as far as is known.
func (p *pace) now(now time.Time) time.Duration {
	if p.every == 0 {
		return firstPace
	}
	return max(p.every, min(now.Sub(p.last), slowPace), time.Microsecond)
}

// second estimates how many jobs begin in a second.
func (p *pace) second() int {
	if p.every == 0 {
		return fewest
	}
	return min(max(int(time.Second/max(p.every, time.Microsecond)), fewest), plenty)
}

// aside returns when the next job that is put aside comes again, if kept jobs are kept
// here. Jobs come again twice as fast as they begin, so that some are always here and
// waiting for them does not set the pace. Jobs that come too soon queue up separately,
// behind the kept jobs and not behind all others.
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
