package group

import (
	"container/heap"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// deadlines is a heap of the jobs that have one, the next first; some of them gone.
type deadlines []*Job

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(*Job)) } //nolint:forcetypeassert // it holds nothing else
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	k := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return k
}

// dueAt notes the deadline of a job that begins to wait. b.mu is held.
func (b *Backlog) dueAt(k *Job) {
	if k.deadline.IsZero() {
		return
	}
	if len(b.dues) > 2*len(b.jobs)+MostCached {
		b.dues = slices.DeleteFunc(b.dues, func(k *Job) bool { return k.gone })
		heap.Init(&b.dues)
	}
	heap.Push(&b.dues, k)
}

// expire takes those out of their lanes whose deadlines have passed: however long
// their groups are held, they end now. It tells whether there are any. b.mu is held.
func (b *Backlog) expire(now time.Time) (some bool) {
	for len(b.dues) > 0 && !now.Before(b.dues[0].deadline) {
		k := heap.Pop(&b.dues).(*Job) //nolint:forcetypeassert // it holds nothing else
		if k.gone || k.Late {
			continue
		}
		k.Late, some = true, true
		k.group.lanes[k.level].count--
		b.late[k.level] = append(b.late[k.level], k)
		b.runnable.Add(1)
	}
	return some
}

// nextLate gives a job that is past its deadline, nil for none. It counts as one that
// runs until it has ended, and takes nothing of the limits. b.mu is held.
func (b *Backlog) nextLate(p job.Priority) *Job {
	for len(b.late[p]) > 0 && !b.paused {
		k := b.late[p][0]
		b.late[p][0] = nil
		if b.late[p] = b.late[p][1:]; len(b.late[p]) == 0 {
			b.late[p] = nil
		}
		b.runnable.Add(-1)
		if k.gone {
			continue
		}
		b.forget(k)
		k.group.running++
		b.fill(p)
		return k
	}
	return nil
}
