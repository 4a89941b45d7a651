package group

import (
	"container/heap"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// deadlines is a heap of jobs, the earliest deadline first; some of the jobs are gone.
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

// dueAt records the deadline of a job that begins to wait. b.mu is held.
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

// expire takes the jobs whose deadlines have passed out of their lanes: they end now,
// even if their groups are held. It reports whether there are any. b.mu is held.
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

// nextLate returns a job that is past its deadline, nil for none. The job counts as
// running until it has ended, and uses no slot and no token. b.mu is held.
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
