package group

import (
	"slices"

	"github.com/bullpen-run/bullpen/job"
)

// ring is whose turn it is among the groups of a priority. Groups that had nothing a
// moment ago go before those that always have something: so who asks for little does
// not wait for a turn of each of the others. A group stays among the others until a
// turn of its own has found it empty, so that nobody gains by asking piecemeal, and of
// freshTurns+1 turns the others have one at least. It is what FQ-CoDel does with
// flows (RFC 8290, sections 4.2 and 5.3), where each job counts as much as another.
type ring struct {
	fresh []*group
	known []*group // some of them with nothing by now
	ahead int      // turns that fresh ones had in a row while others waited
}

// freshTurns is how many turns fresh groups have before one of the others has one.
const freshTurns = 4

func (r *ring) size() int { return len(r.fresh) + len(r.known) }

// pop takes out the group whose turn it is, nil where there is none.
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

// used says that a group had its turn, and lets it have the next behind the others.
func (r *ring) used(g *group, fresh bool) {
	if !fresh {
		r.ahead = 0
	} else if len(r.known) > 0 {
		r.ahead++
	}
	r.known = append(r.known, g)
}

// dropEmpty takes out the groups that have nothing of a priority, and returns how many.
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
