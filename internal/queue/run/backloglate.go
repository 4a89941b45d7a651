package run

import (
	"container/heap"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// deadlines is a heap of the jobs that have one, the next first; some of them gone.
type deadlines []*kept

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(*kept)) } //nolint:forcetypeassert // it holds nothing else
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	k := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return k
}

// dueAt notes the deadline of a job that begins to wait. y.mu is held.
func (y *backlog) dueAt(k *kept) {
	if k.deadline.IsZero() {
		return
	}
	if len(y.dues) > 2*len(y.jobs)+MostCached {
		y.dues = slices.DeleteFunc(y.dues, func(k *kept) bool { return k.gone })
		heap.Init(&y.dues)
	}
	heap.Push(&y.dues, k)
}

// expire takes those out of their lanes whose deadlines have passed: however long
// their groups are held, they end now. It tells whether there are any. y.mu is held.
func (y *backlog) expire(now time.Time) (some bool) {
	for len(y.dues) > 0 && !now.Before(y.dues[0].deadline) {
		k := heap.Pop(&y.dues).(*kept) //nolint:forcetypeassert // it holds nothing else
		if k.gone || k.late {
			continue
		}
		k.late, some = true, true
		k.group.lanes[k.level].count--
		y.late[k.level] = append(y.late[k.level], k)
		y.runnable.Add(1)
	}
	return some
}

// nextLate gives a job that is past its deadline, nil for none. It counts as one that
// runs until it has ended, and takes nothing of the limits. y.mu is held.
func (y *backlog) nextLate(p job.Priority) *kept {
	for len(y.late[p]) > 0 && !y.paused {
		k := y.late[p][0]
		y.late[p][0] = nil
		if y.late[p] = y.late[p][1:]; len(y.late[p]) == 0 {
			y.late[p] = nil
		}
		y.runnable.Add(-1)
		if k.gone {
			continue
		}
		y.forget(k)
		k.group.running++
		y.fill(p)
		return k
	}
	return nil
}
