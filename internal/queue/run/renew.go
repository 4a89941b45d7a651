package run

import (
	"math/rand/v2"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
)

// renewLater starts the renewal timer, unless it runs.
func (r *runner) renewLater() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewing {
		return
	}
	r.renewing = true
	time.AfterFunc(r.renewPeriod(), r.renew)
}

// renewPeriod is how often the jobs on this node are checked: often enough for three
// renewals per lease, and for storing their progress.
func (r *runner) renewPeriod() time.Duration {
	d := min(r.queue.Config.Lease/6, time.Second)
	return d - time.Duration(rand.Float64()*float64(d)/4)
}

// renew renews the lease of each job that was not renewed for a third of the lease, and
// stores the progress of those that run long. It runs on a timer while this call of Work
// has jobs.
func (r *runner) renew() {
	q, now := r.queue, time.Now()
	select {
	case <-r.left:
		return // jobs that Work left behind are not renewed, and so are delivered again
	default:
	}
	q.mu.Lock()
	mine := make([]*attempt, 0, r.all.Load())
	for _, a := range q.attempts {
		if a.runner == r {
			mine = append(mine, a)
		}
	}
	q.mu.Unlock()
	for _, a := range mine {
		a.renew(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Don't use len(mine): a job that came since relies on this timer. It was counted in
	// all before it checked for a timer.
	if r.all.Load() == 0 || q.Live.Err() != nil {
		r.renewing = false
		return
	}
	time.AfterFunc(r.renewPeriod(), r.renew)
}

// liveAfter is how long a job runs before its progress is stored.
const liveAfter = time.Second

// renew renews the lease, and stores the progress of a job that has run for a second, so
// that other nodes see it. A job whose deadline passed long ago is no longer renewed: its
// executor cannot end it, and another node may.
func (a *attempt) renew(now time.Time) {
	q := a.queue
	state := a.state.State()
	if state == attemptAnswered {
		return
	}
	if s := a.stored; state == attemptHanded && s.Job.Late(now.Add(-q.Config.Lease)) {
		return
	}
	if now.UnixNano()-a.extended.Load() >= int64(q.Config.Lease/3) {
		a.extended.Store(now.UnixNano())
		a.delivery.Extend()
	}
	if state != attemptHanded || now.Sub(a.taken) < liveAfter {
		return
	}
	if a.seen.takeNews() || a.liveSeq.Load() == 0 || now.UnixNano()-a.liveAt.Load() >= int64(q.Config.Lease/2) {
		a.liveAt.Store(now.UnixNano())
		a.showLive()
	}
}

func (o *observed) takeNews() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.news
	o.news = false
	return news
}

func (a *attempt) showLive() {
	e := record.End{ID: a.stored.ID, Node: a.queue.Config.Node, Tries: record.Tries{Started: int(a.number.Load())}}
	e.Progress, e.Note, e.Lines = a.seen.snapshot()
	ttl := max(a.queue.Config.Lease, time.Second).Round(time.Second)
	a.queue.Engine.Put(engine.Put{Stream: engine.State, Subject: "live." + e.ID, Data: e.Encode(), TTL: ttl}, func(seq uint64, err error) {
		if err == nil {
			a.liveSeq.Store(seq)
		}
	})
}
