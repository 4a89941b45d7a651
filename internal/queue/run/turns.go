package run

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/job"
)

// groupedLately is for how long after a job with a group began no places are kept
// for jobs that may come to a level without groups.
const groupedLately = 250 * time.Millisecond

// takeTurns lets jobs with a group begin, in turn with those that have none, as far
// as there are places, and leaves them ready. Between the levels the weights decide;
// in a level all groups have their turns one after the other, and the jobs without a
// group have theirs among them. It tells whether there were jobs with a group a
// moment ago.
func (r *runner) takeTurns(places int) (lately bool) {
	if r.backlog == nil {
		return false
	}
	if r.backlog.Idle() {
		return time.Since(r.grouped) < groupedLately
	}
	r.grouped = time.Now()
	room := r.room(places)
	var wanted [job.Priorities]int
	plain := func(p job.Priority) bool { return r.levels[p].known() > wanted[p] }
	for room > 0 {
		p, ok := r.pick(func(p job.Priority) bool { return plain(p) || r.backlog.Has(p) })
		if !ok {
			break
		}
		l := &r.levels[p]
		if plain(p) && l.others >= r.backlog.Turns(p) {
			l.others = 0
			wanted[p]++
			room--
			continue
		}
		if k := r.backlog.Next(p); k != nil {
			l.others++
			r.beginKept(k)
			room--
		} else if plain(p) {
			l.others = 0
			wanted[p]++
			room--
		}
	}
	for i, n := range wanted {
		if n > 0 {
			r.levels[i].asked += n
			r.levels[i].taker.Request(n, false)
		}
	}
	return true
}

// room is how many jobs may be begun or requested for so many places beyond those that
// are on their way for sure.
func (r *runner) room(places int) int {
	if int(r.all.Load()-r.held.Load()) >= mostRecording {
		return 0
	}
	return places - len(r.ready) - r.looking - r.promised()
}

// promised is how many jobs without a group were requested that were known.
func (r *runner) promised() (n int) {
	for i := range r.levels {
		n += r.levels[i].asked
	}
	return n
}

// pressKept begins a job with a group for which there is no place, if one waits.
func (r *runner) pressKept() bool {
	if r.backlog == nil {
		return false
	}
	for _, p := range order {
		if k := r.backlog.Next(p); k != nil {
			r.beginKept(k)
			return true
		}
	}
	return false
}

// watchLevels keeps one request that waits at each level of which no jobs are
// known, and takes back what is more.
func (r *runner) watchLevels() {
	for i := range r.levels {
		l := &r.levels[i]
		switch {
		case l.standing > l.recalled+1:
			l.recall()
		case l.standing+l.asked == 0 && l.waiting <= 0:
			l.standing = 1
			l.taker.Request(1, true)
		}
	}
}

// beginKept begins a job from the backlog. One that was put away without what is
// stored of it is read first.
func (r *runner) beginKept(k *group.Job) {
	if k.Stored != nil || k.Delivery.Data != nil {
		r.begin(k.Delivery, k)
		return
	}
	r.looking++
	r.all.Add(1)
	r.queue.Spawn(func() { // ends when it is read, at the latest with live
		k.Delivery.Data = r.queue.Read(k)
		r.arrived(arrival{read: k})
	})
}

// readAgain goes on with a job that was read again.
func (r *runner) readAgain(k *group.Job) {
	r.looking--
	defer r.finished()
	if k.Delivery.Data == nil { // it was canceled meanwhile
		k.Delivery.Ack()
		r.backlog.Freed(k, true)
		return
	}
	r.begin(k.Delivery, k)
}

// freeGroup says that a job runs no more, if it has a group; unused says that it
// never began.
func (a *attempt) freeGroup(unused bool) {
	if k := a.kept.Swap(nil); k != nil {
		a.runner.backlog.Freed(k, unused)
	}
}
