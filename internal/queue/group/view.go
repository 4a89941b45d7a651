package group

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// groupScan is how many jobs Groups reads at most.
const groupScan = 100_000

// ListGroups implements queue.Queue.Groups.
func (q *Groups) ListGroups(ctx context.Context, queue string) ([]job.GroupInfo, error) {
	if err := job.CheckToken("queue", queue); err != nil {
		return nil, err
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return nil, err
	}
	all := map[string]*job.GroupInfo{}
	b := q.backlog(queue)
	if b != nil {
		b.view(all)
	}
	if b == nil || b.shared {
		if err := q.countGroups(ctx, queue, all); err != nil {
			return nil, err
		}
	}
	for name, l := range set {
		if name == "" {
			continue
		}
		if all[name] == nil {
			all[name] = &job.GroupInfo{Group: name}
		}
		all[name].Limits, all[name].Own = l, true
	}
	infos := make([]job.GroupInfo, 0, len(all))
	for _, i := range all {
		if !i.Own {
			i.Limits = q.limitsOf(b, set)
		}
		infos = append(infos, *i)
	}
	slices.SortFunc(infos, func(a, b job.GroupInfo) int { return strings.Compare(a.Group, b.Group) })
	return infos, nil
}

// GroupDefaults implements queue.Queue.GroupDefaults.
func (q *Groups) GroupDefaults(ctx context.Context, queue string) (job.GroupLimits, error) {
	if err := job.CheckToken("queue", queue); err != nil {
		return job.GroupLimits{}, err
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return job.GroupLimits{}, err
	}
	return q.limitsOf(q.backlog(queue), set), nil
}

func (q *Groups) limitsOf(b *Backlog, set map[string]job.GroupLimits) job.GroupLimits {
	if l, found := set[""]; found || b == nil {
		return l
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.defaults
}

// view adds the groups that have jobs here.
func (b *Backlog) view(all map[string]*job.GroupInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, g := range b.groups {
		if name == "" || g.waiting+g.running == 0 {
			continue
		}
		i := &job.GroupInfo{Group: name, Waiting: g.waiting, Running: g.running}
		for p := range g.lanes {
			if k := g.lanes[p].oldest(); k != nil && (i.Oldest.IsZero() || k.Delivery.Time.Before(i.Oldest)) {
				i.Oldest = k.Delivery.Time
			}
		}
		all[name] = i
	}
}

// countGroups counts the jobs stored for each group that are not running here.
func (q *Groups) countGroups(ctx context.Context, queue string, all map[string]*job.GroupInfo) error {
	for _, i := range all {
		i.Waiting, i.Oldest = 0, time.Time{}
	}
	for p := range job.Priority(job.Priorities) {
		c := engine.Consumer{Queue: queue, Priority: p.String(), Grouped: true}
		looked := 0
		for from := uint64(0); looked < groupScan; {
			page, err := q.Engine.Scan(ctx, engine.Jobs, engine.JobSubject(c, "*"), from, jobs.ScanPage)
			if err != nil {
				return jobs.StoreError(err)
			}
			for _, m := range page {
				from, looked = m.Seq+1, looked+1
				q.countGroup(m, all)
			}
			if len(page) < jobs.ScanPage {
				break
			}
		}
	}
	return nil
}

func (q *Groups) countGroup(m engine.Message, all map[string]*job.GroupInfo) {
	id := engine.LastToken(m.Subject)
	s, err := record.DecodeJob(id, m.Data)
	if err != nil || q.Above.Hand(id) != nil {
		return // a damaged one is reported when its turn comes
	}
	i := all[s.Job.Group]
	if i == nil {
		i = &job.GroupInfo{Group: s.Job.Group}
		all[s.Job.Group] = i
	}
	if i.Waiting++; i.Oldest.IsZero() || m.Time.Before(i.Oldest) {
		i.Oldest = m.Time
	}
}
