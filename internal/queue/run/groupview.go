package run

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

// Groups is that of a queue.
func (q *Node) Groups(ctx context.Context, queue string) ([]job.GroupInfo, error) {
	if err := job.CheckToken("queue", queue); err != nil {
		return nil, err
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return nil, err
	}
	all := map[string]*job.GroupInfo{}
	y := q.backlog(queue)
	if y != nil {
		y.view(all)
	}
	if y == nil || y.shared {
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
			i.Limits = q.limitsOf(y, set)
		}
		infos = append(infos, *i)
	}
	slices.SortFunc(infos, func(a, b job.GroupInfo) int { return strings.Compare(a.Group, b.Group) })
	return infos, nil
}

// GroupDefaults is that of a queue.
func (q *Node) GroupDefaults(ctx context.Context, queue string) (job.GroupLimits, error) {
	if err := job.CheckToken("queue", queue); err != nil {
		return job.GroupLimits{}, err
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return job.GroupLimits{}, err
	}
	return q.limitsOf(q.backlog(queue), set), nil
}

func (q *Node) limitsOf(y *backlog, set map[string]job.GroupLimits) job.GroupLimits {
	if l, found := set[""]; found || y == nil {
		return l
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.defaults
}

// view tells of the groups that have something here.
func (y *backlog) view(all map[string]*job.GroupInfo) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for name, g := range y.groups {
		if name == "" || g.waiting+g.running == 0 {
			continue
		}
		i := &job.GroupInfo{Group: name, Waiting: g.waiting, Running: g.running}
		for p := range g.lanes {
			if k := g.lanes[p].oldest(); k != nil && (i.Oldest.IsZero() || k.delivery.Time.Before(i.Oldest)) {
				i.Oldest = k.delivery.Time
			}
		}
		all[name] = i
	}
}

// countGroups counts what is stored of each group and not running here.
func (q *Node) countGroups(ctx context.Context, queue string, all map[string]*job.GroupInfo) error {
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

func (q *Node) countGroup(m engine.Message, all map[string]*job.GroupInfo) {
	id := engine.LastToken(m.Subject)
	s, err := record.DecodeJob(id, m.Data)
	if err != nil || q.held(id) {
		return // a damaged one is told when its turn comes
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
