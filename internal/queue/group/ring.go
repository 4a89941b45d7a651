package group

import (
	"slices"

	"github.com/bullpen-run/bullpen/job"
)

// ring decides which group of a priority has the next turn. Groups that had no job a
// moment ago (fresh ones) go before those that always have some, so that a group with few
// jobs does not wait for a turn of each of the others. A group leaves the others only
// when a turn of its own finds it empty, so that enqueuing piecemeal gains nothing. Of
// freshTurns+1 turns the others have at least one. FQ-CoDel does the same with flows (RFC
// 8290, sections 4.2 and 5.3); here each job counts the same.
type ring struct {
	fresh []*group
	known []*group // some of them are empty by now
	ahead int      // consecutive turns of fresh groups while others waited
}

// freshTurns is how many turns fresh groups have before one of the others has one.
const freshTurns = 4

func (r *ring) size() int { return len(r.fresh) + len(r.known) }

// pop removes and returns the group whose turn it is, nil for none.
func (r *ring) pop() (g *group, fresh bool) {
	from := &r.known
	if fresh = len(r.fresh) > 0 && (len(r.known) == 0 || r.ahead < freshTurns); fresh {
		from = &r.fresh
	}
	if len(*from) == 0 {
		return nil, false
	}
	g = (*from)[0]
	(*from)[0] = nil
	if *from = (*from)[1:]; len(*from) == 0 {
		*from = nil
	}
	return g, fresh
}

// used records that a group had its turn, and puts it behind the others.
func (r *ring) used(g *group, fresh bool) {
	if !fresh {
		r.ahead = 0
	} else if len(r.known) > 0 {
		r.ahead++
	}
	r.known = append(r.known, g)
}

// dropEmpty removes the groups without jobs of a priority, and returns their number.
func (r *ring) dropEmpty(p job.Priority) (n int) {
	r.known = slices.DeleteFunc(r.known, func(g *group) bool {
		l := &g.lanes[p]
		if l.count > 0 {
			return false
		}
		l.inRing = false
		n++
		return true
	})
	return n
}
