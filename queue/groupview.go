package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// GroupInfo is what there is to know of a group of a queue.
type GroupInfo struct {
	Group string
	// Waiting jobs can start when they have their turn and the limits allow it;
	// Running ones are in the hands of this node.
	Waiting, Running int
	// Limits hold for it; Own says that they were set for it.
	Limits GroupLimits
	Own    bool
	// Oldest is when the first of its jobs that wait was stored; zero for none.
	Oldest time.Time
}

// groupScan is how many jobs Groups reads at most.
const groupScan = 100_000

// Groups returns the groups of a queue that have jobs waiting or running, or
// limits of their own, by name. Where this program works the queue and alone has
// the store, it costs no more than reading what is known here. Otherwise the jobs
// that wait are read from the store, 100 000 at most.
func (q *Queue) Groups(ctx context.Context, queue string) ([]GroupInfo, error) {
	if err := checkToken("queue", queue); err != nil {
		return nil, err
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return nil, err
	}
	all := map[string]*GroupInfo{}
	y := q.yard(queue)
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
			all[name] = &GroupInfo{Group: name}
		}
		all[name].Limits, all[name].Own = l, true
	}
	infos := make([]GroupInfo, 0, len(all))
	for _, i := range all {
		if !i.Own {
			i.Limits = q.limitsOf(y, set)
		}
		infos = append(infos, *i)
	}
	slices.SortFunc(infos, func(a, b GroupInfo) int { return strings.Compare(a.Group, b.Group) })
	return infos, nil
}

// GroupDefaults returns the limits of the groups of a queue that have none of
// their own: those that were set for all, else those of WorkConfig.Group where
// this program works the queue.
func (q *Queue) GroupDefaults(ctx context.Context, queue string) (GroupLimits, error) {
	if err := checkToken("queue", queue); err != nil {
		return GroupLimits{}, err
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return GroupLimits{}, err
	}
	return q.limitsOf(q.yard(queue), set), nil
}

func (q *Queue) limitsOf(y *yard, set map[string]GroupLimits) GroupLimits {
	if l, found := set[""]; found || y == nil {
		return l
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.defaults
}

// view tells of the groups that have something here.
func (y *yard) view(all map[string]*GroupInfo) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for name, g := range y.groups {
		if name == "" || g.waiting+g.running == 0 {
			continue
		}
		i := &GroupInfo{Group: name, Waiting: g.waiting, Running: g.running}
		for p := range g.lanes {
			if k := g.lanes[p].oldest(); k != nil && (i.Oldest.IsZero() || k.delivery.Time.Before(i.Oldest)) {
				i.Oldest = k.delivery.Time
			}
		}
		all[name] = i
	}
}

// countGroups counts what is stored of each group and not running here.
func (q *Queue) countGroups(ctx context.Context, queue string, all map[string]*GroupInfo) error {
	for _, i := range all {
		i.Waiting, i.Oldest = 0, time.Time{}
	}
	for p := range Priority(priorities) {
		c := engine.Consumer{Queue: queue, Priority: p.String(), Grouped: true}
		looked := 0
		for from := uint64(0); looked < groupScan; {
			page, err := q.engine.Scan(ctx, engine.Jobs, engine.JobSubject(c, "*"), from, scanPage)
			if err != nil {
				return storeError(err)
			}
			for _, m := range page {
				from, looked = m.Seq+1, looked+1
				q.countGroup(m, all)
			}
			if len(page) < scanPage {
				break
			}
		}
	}
	return nil
}

func (q *Queue) countGroup(m engine.Message, all map[string]*GroupInfo) {
	id := engine.LastToken(m.Subject)
	s, err := decodeJob(id, m.Data)
	if err != nil || q.held(id) {
		return // a damaged one is told when its turn comes
	}
	i := all[s.job.Group]
	if i == nil {
		i = &GroupInfo{Group: s.job.Group}
		all[s.job.Group] = i
	}
	if i.Waiting++; i.Oldest.IsZero() || m.Time.Before(i.Oldest) {
		i.Oldest = m.Time
	}
}

// String says it for people.
func (l GroupLimits) String() string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", l.Concurrency))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g a second, %g at once", l.Rate, l.burst()))
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}
