package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// grouping are the clauses on jobs with a group.
func grouping() []clause {
	return []clause{
		{name: "GroupIsKept", test: testGroupKept},
		{name: "GroupsHaveTurns", test: testGroupTurns},
		{name: "GroupsBesideOthers", test: testGroupsBeside},
		{name: "GroupConcurrency", test: testGroupConcurrency},
		{name: "GroupLimitsChange", test: testGroupLimits},
		{name: "GroupLimitsSurviveReopen", test: testGroupReopen},
		{name: "GroupDeadline", test: testGroupDeadline},
		{name: "GroupPlacesGivenBack", test: testGroupGivenBack, nodes: true},
		{name: "GroupFaults", test: testGroupFaults},
		{name: "GroupCancel", test: testGroupCancel},
		{name: "GroupPause", test: testGroupPause},
		{name: "GroupRetries", test: testGroupRetries},
		{name: "GroupView", test: testGroupView},
		{name: "ManyGroups", test: testManyGroups},
		{name: "GroupRate", test: testGroupRate, alone: true},
		{name: "GroupConcurrencyOnNodes", test: testGroupNodes, nodes: true},
		{name: "GroupRateOnNodes", test: testGroupRateNodes, nodes: true, alone: true},
	}
}

// groupRuns counts how many jobs of each group run.
type groupRuns struct {
	of func(bullpen.Task) string

	mu      sync.Mutex
	running map[string]int // guarded by mu
	most    map[string]int // guarded by mu
}

func newGroupRuns() *groupRuns {
	return &groupRuns{of: func(t bullpen.Task) string { return t.Name }, running: map[string]int{}, most: map[string]int{}}
}

// around has handler count.
func (y *groupRuns) around(handler bullpen.Handler) bullpen.Handler {
	return func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		g := y.of(t)
		y.add(g, 1)
		defer y.add(g, -1)
		return handler(ctx, t)
	}
}

func (y *groupRuns) add(g string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.running[g] += n
	y.most[g] = max(y.most[g], y.running[g])
}

func (y *groupRuns) peak(g string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.most[g]
}

// grouped gives n jobs of a group, whose task is named as the group.
func grouped(n int, group string) []job.Job { return jobs(n, job.Job{Name: group, Group: group}) }

func testGroupKept(f *fixture) {
	f.open(queue.Config{})
	id := f.enqueue(job.Job{Name: "fail", Group: "Tenant 7/é", Payload: []byte("p")}).ID
	if i := f.get(id); i.Group != "Tenant 7/é" || i.State != job.Queued || i.Queue != "default" {
		f.t.Errorf("Get = %+v, want it queued, of its group", i)
	}
	if all := f.list(job.Filter{States: inQueue}); len(all) != 1 || all[0].Group != "Tenant 7/é" {
		f.t.Errorf("List = %+v, want the job with its group", all)
	}
	f.staff(1, byName(newGate()))
	f.bad(id, bullpen.Failed, job.Final)
	if i := f.get(id); i.Group != "Tenant 7/é" {
		f.t.Errorf("of the ended job the group is %q", i.Group)
	}
	ref, err := f.RetryDead(f.ctx(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	f.bad(ref.ID, bullpen.Failed, job.Final)
	if i := f.get(ref.ID); i.Group != "Tenant 7/é" {
		f.t.Errorf("of the job that was tried again the group is %q", i.Group)
	}
	later := f.enqueue(job.Job{Name: "ok", Group: "later", Delay: 50 * time.Millisecond}).ID
	f.good(later)
	f.empty()
}

// slow takes 5 ms.
func slow(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, nil
}

// position is how many jobs started before the first with a name.
func (c *executor) position(name string) int {
	return slices.IndexFunc(c.of(""), func(s start) bool { return s.task.Name == name })
}

func testGroupTurns(f *fixture) {
	f.open(queue.Config{})
	big := f.enqueueAll(grouped(1000, "big"))
	c := f.staff(1, slow)
	f.eventually("the large group is at work", func() bool { return len(c.of("")) > 20 })
	for i := range 5 {
		name := fmt.Sprint("small ", i)
		id := f.enqueue(job.Job{Name: name, Group: name}).ID
		before := len(c.of(""))
		f.good(id)
		// One runs, one has its turn, and some start while it is on its way. On a store
		// that others share a node has more than a turn of the large group in hand.
		most := 10
		if f.subject.OneNode == "" {
			most = 300 // of the thousand; a slow store has more on their way
		}
		if n := c.position(name) - before; n > most {
			f.t.Errorf("job %d of a small group started after %d others, want after those of one turn", i, n)
		}
	}
	for _, id := range big[:200] {
		f.good(id)
	}
}

func testGroupsBeside(f *fixture) {
	f.open(queue.Config{})
	f.enqueueAll(grouped(300, "a"))
	f.enqueueAll(grouped(300, "b"))
	f.enqueueAll(jobs(300, job.Job{Name: "none"}))
	f.enqueueAll(jobs(100, job.Job{Name: "low", Priority: job.Low, Group: "a"}))
	c := f.staff(2, slow)
	f.eventually("some have started", func() bool { return len(c.of("")) >= 120 })
	count := map[string]int{}
	for _, s := range c.of("")[20:120] {
		count[s.task.Name]++
	}
	for name, want := range map[string]int{"a": 27, "b": 27, "none": 27, "low": 20} {
		if n := count[name]; n < want/2 || n > 2*want {
			f.t.Errorf("of 100 starts %v are of %s, want about %d", count, name, want)
		}
	}
}

func testGroupConcurrency(f *fixture) {
	f.open(queue.Config{})
	y := newGroupRuns()
	c := newExecutor(16, y.around(slow))
	f.work(f.Queue, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 2}})
	if err := f.SetGroupLimits(f.ctx(), "default", "c", job.GroupLimits{Concurrency: 3}); err != nil {
		f.t.Fatal(err)
	}
	var all []job.Job
	for i := range 40 {
		for _, g := range []string{"a", "b", "c"} {
			all = append(all, job.Job{Name: g, Group: g, Priority: job.Priority(i % 3)})
		}
	}
	for _, id := range f.enqueueAll(all) {
		f.good(id)
	}
	for g, want := range map[string]int{"a": 2, "b": 2, "c": 3} {
		if most := y.peak(g); most != want {
			f.t.Errorf("of group %s %d jobs ran at the same time, want %d", g, most, want)
		}
	}
	f.empty()
}

func testGroupCancel(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	c := newExecutor(4, g.handle)
	f.work(f.Queue, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
	ids := f.enqueueAll(grouped(5, "a"))
	first := await(f, "one runs", g.started).ID
	for _, id := range ids {
		if id != first {
			if err := f.Cancel(f.ctx(), id); err != nil {
				f.t.Errorf("Cancel = %v", err)
			}
		}
	}
	g.open()
	for _, id := range ids {
		_, err := f.wait(id)
		if id == first != (err == nil) || id != first && !errors.Is(err, context.Canceled) {
			f.t.Errorf("job %s ended %v", id, err)
		}
	}
	if n := len(c.of("")); n != 1 {
		f.t.Errorf("%d jobs started, want the one that was not canceled", n)
	}
	last := f.enqueue(job.Job{Name: "a", Group: "a"}).ID
	f.good(last)
	f.empty()
}

func testGroupPause(f *fixture) {
	f.open(queue.Config{})
	f.enqueueAll(grouped(5, "a"))
	c := f.staff(1, slow)
	f.eventually("some have run", func() bool { return len(c.of("")) > 1 })
	if err := f.Pause(f.ctx(), "default"); err != nil {
		f.t.Fatal(err)
	}
	f.pass(moment)
	before := len(c.of(""))
	ids := f.enqueueAll(grouped(5, "a"))
	f.pass(moment)
	if n := len(c.of("")); n != before {
		f.t.Errorf("%d jobs of a paused queue started", n-before)
	}
	if err := f.Resume(f.ctx(), "default"); err != nil {
		f.t.Fatal(err)
	}
	for _, id := range ids {
		f.good(id)
	}
}

func testGroupRetries(f *fixture) {
	f.open(queue.Config{Retry: job.Retry{Attempts: 3, Backoff: 20 * time.Millisecond}})
	y := newGroupRuns()
	c := newExecutor(8, y.around(func(_ context.Context, t bullpen.Task) ([]byte, error) {
		if queue.AttemptOf(t).Attempt < 3 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	}))
	f.work(f.Queue, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
	ids := f.enqueueAll(grouped(6, "a"))
	for _, id := range ids {
		f.good(id)
		f.numbered(c, id, 3)
	}
	if most := y.peak("a"); most != 1 {
		f.t.Errorf("%d jobs ran at the same time, want 1", most)
	}
	f.empty()
}

func testGroupView(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	c := newExecutor(4, g.handle)
	f.work(f.Queue, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
	f.enqueueAll(grouped(4, "a"))
	await(f, "one runs", g.started)
	own := job.GroupLimits{Concurrency: 7, Rate: 50, Burst: 5}
	if err := f.SetGroupLimits(f.ctx(), "default", "b", own); err != nil {
		f.t.Fatal(err)
	}
	var all []job.GroupInfo
	f.eventually("the groups are seen", func() bool {
		var err error
		if all, err = f.Groups(f.ctx(), "default"); err != nil {
			f.t.Fatal(err)
		}
		return len(all) == 2 && all[0].Waiting == 3
	})
	a, b := all[0], all[1]
	if a.Group != "a" || a.Running != 1 || a.Own || a.Limits.Concurrency != 1 || time.Since(a.Oldest) > time.Minute {
		f.t.Errorf("of a is %+v, want 3 waiting and 1 running", a)
	}
	if b.Group != "b" || b.Waiting+b.Running != 0 || !b.Own || b.Limits != own {
		f.t.Errorf("of b is %+v, want its limits", b)
	}
	f.eventually("Depth has 3 waiting, held by the limit, and 1 taken", func() bool {
		d, err := f.Depth(f.ctx(), "default")
		if err != nil {
			f.t.Fatal(err)
		}
		return d[1].Waiting == 3 && d[1].Taken == 1 && d[1].Held == 3
	})
	g.open()
}

func testManyGroups(f *fixture) {
	f.open(queue.Config{})
	var all []job.Job
	for i := range 400 {
		all = append(all, grouped(3, fmt.Sprint("g", i))...)
	}
	ids := f.enqueueAll(all)
	c := newExecutor(8, short)
	f.work(f.Queue, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
	for _, id := range ids {
		f.good(id)
	}
	f.once(ids...)
	f.empty()
}
