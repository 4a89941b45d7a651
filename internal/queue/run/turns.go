package run

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/job"
)

// groupedLately is how long after a job with a group began no places are kept for jobs
// that may come to a level without groups.
const groupedLately = 250 * time.Millisecond

// takeTurns begins jobs with a group, in turn with those without, as far as there are
// places, and leaves them ready. The weights decide between the levels. Within a level
// all groups take turns, and the jobs without a group take turns among them. It reports
// whether there were jobs with a group a moment ago.
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

// room returns how many jobs may begin or be requested for places, beyond those certainly
// on their way.
func (r *runner) room(places int) int {
	if int(r.all.Load()-r.held.Load()) >= mostRecording {
		return 0
	}
	return places - len(r.ready) - r.looking - r.promised()
}

// promised returns how many known jobs without a group were requested.
func (r *runner) promised() (n int) {
	for i := range r.levels {
		n += r.levels[i].asked
	}
	return n
}

// pressKept begins a waiting job with a group although it has no place.
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

// watchLevels keeps one standing request at each level without known jobs, and takes back
// any more.
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

// beginKept begins a job from the backlog. If its record was dropped to save memory, it
// is read first.
func (r *runner) beginKept(k *group.Job) {
	if k.Stored != nil || k.Delivery.Data != nil {
		r.begin(k.Delivery, k)
		return
	}
	r.looking++
	r.all.Add(1)
	r.queue.Spawn(func() { // ends when it is read, at the latest with Live
		k.Delivery.Data = r.queue.Read(k)
		r.arrived(arrival{read: k})
	})
}

// readAgain continues with a job whose record was read again.
func (r *runner) readAgain(k *group.Job) {
	r.looking--
	defer r.finished()
	if k.Delivery.Data == nil { // the job was canceled meanwhile
		k.Delivery.Ack()
		r.backlog.Freed(k, true)
		return
	}
	r.begin(k.Delivery, k)
}

// freeGroup reports to its group that a job no longer runs; unused means that it never
// began.
func (a *attempt) freeGroup(unused bool) {
	if k := a.kept.Swap(nil); k != nil {
		a.runner.backlog.Freed(k, unused)
	}
}
