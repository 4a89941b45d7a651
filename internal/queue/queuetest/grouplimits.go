package queuetest

import (
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

func testGroupLimits(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	c := newExecutor(8, g.handle)
	f.work(f.Queue, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
	ids := f.enqueueAll(grouped(8, "a"))
	starts := func(n int, when string) {
		f.t.Helper()
		for range n {
			await(f, "one more starts "+when, g.started)
		}
		f.pass(moment)
		if more := len(g.started); more != 0 {
			f.t.Errorf("%d more than %d jobs start %s", more, n, when)
		}
	}
	set := func(group string, l job.GroupLimits) {
		f.t.Helper()
		if err := f.SetGroupLimits(f.ctx(), "default", group, l); err != nil {
			f.t.Fatal(err)
		}
	}
	starts(1, "with the limit of Work")
	set("", job.GroupLimits{Concurrency: 3})
	starts(2, "with the limit of all groups")
	set("a", job.GroupLimits{Concurrency: 2})
	starts(0, "with a lower limit")
	set("a", job.GroupLimits{Concurrency: 5})
	starts(2, "with a limit of its own")
	if err := f.ResetGroupLimits(f.ctx(), "default", "a"); err != nil {
		f.t.Fatal(err)
	}
	set("", job.GroupLimits{})
	starts(3, "without a limit")
	g.open()
	for _, id := range ids {
		f.good(id)
	}
}

// testGroupDeadline lets the deadlines of jobs pass while the limits of their group
// hold them: they end then, and not when their turn comes.
func testGroupDeadline(f *fixture) {
	f.open(queue.Config{})
	g := newGate()
	f.work(f.Queue, newExecutor(4, g.handle), queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1}})
	first := f.enqueue(job.Job{Group: "a"}).ID
	await(f, "one runs", g.started)
	before := f.enqueue(job.Job{Group: "a"}).ID
	soon := time.Now().Add(300 * time.Millisecond)
	var late []string
	for n := range 6 {
		late = append(late, f.enqueue(job.Job{Group: "a", Priority: job.Priority(n % 3), Deadline: soon}).ID)
	}
	canceled := f.enqueue(job.Job{Group: "a", Deadline: soon}).ID
	after := f.enqueue(job.Job{Group: "a", Deadline: time.Now().Add(time.Hour)}).ID
	if err := f.Cancel(f.ctx(), canceled); err != nil {
		f.t.Errorf("Cancel = %v", err)
	}
	for _, id := range late {
		f.bad(id, bullpen.Timeout, job.Expired)
	}
	f.bad(canceled, bullpen.Canceled, job.TakenBack)
	for _, id := range []string{first, before, after} {
		if i := f.get(id); i.State.Ended() {
			f.t.Errorf("job %s is %v, want it not ended", id, i.State)
		}
	}
	g.open()
	for _, id := range []string{first, before, after} {
		f.good(id)
	}
	f.once(append(late, first, before, canceled, after)...)
	f.empty()
}

// testGroupGivenBack has the places of a group on another node as soon as this one
// works no more, or is closed. No lease ends here.
func testGroupGivenBack(f *fixture) {
	f.open(queue.Config{Lease: longLease})
	other := f.another()
	if err := f.SetGroupLimits(f.ctx(), "default", "a", job.GroupLimits{Concurrency: 2}); err != nil {
		f.t.Fatal(err)
	}
	begin := func(q *queue.Queue) *work {
		f.t.Helper()
		g := newGate()
		w := f.work(q, newExecutor(4, g.handle), queue.WorkConfig{Grace: -1})
		await(f, "one runs", g.started)
		await(f, "another runs", g.started)
		return w
	}
	ids := f.enqueueAll(grouped(8, "a"))
	w := begin(f.Queue)
	w.stop() // its node goes on
	begin(other)
	f.shut(other)
	c := newExecutor(8, echo)
	f.work(f.another(), c, queue.WorkConfig{})
	for _, id := range ids {
		f.good(id)
	}
}

func testGroupReopen(f *fixture) {
	f.open(queue.Config{Lease: f.subject.Lease})
	g := newGate()
	w := f.work(f.Queue, newExecutor(4, g.handle), queue.WorkConfig{Grace: -1})
	if err := f.SetGroupLimits(f.ctx(), "default", "a", job.GroupLimits{Concurrency: 2, Rate: 1000}); err != nil {
		f.t.Fatal(err)
	}
	ids := f.enqueueAll(grouped(30, "a"))
	await(f, "one runs", g.started)
	w.stop()
	f.reopen()
	y := newGroupRuns()
	c := newExecutor(8, y.around(slow))
	f.work(f.Queue, c, queue.WorkConfig{})
	ran := 0
	for _, id := range ids {
		f.good(id)
		for _, s := range c.of(id) {
			if ran++; s.Redelivered && s.Attempt == 1 {
				f.t.Errorf("job %s received %+v", id, s.Delivered)
			}
		}
	}
	if most := y.peak("a"); most != 2 || ran != len(ids) {
		f.t.Errorf("after a restart %d jobs ran, %d at the same time; want %d and 2", ran, most, len(ids))
	}
	f.once(ids...)
	f.empty()
}

func testGroupFaults(f *fixture) {
	f.open(queue.Config{})
	for name, l := range map[string]job.GroupLimits{
		"a negative concurrency": {Concurrency: -1}, "a negative rate": {Rate: -1}, "a burst of nothing": {Burst: 3},
		"a negative burst": {Rate: 1, Burst: -1},
	} {
		if err := f.SetGroupLimits(f.ctx(), "default", "a", l); err == nil {
			f.t.Errorf("%s was taken", name)
		}
	}
	if err := f.SetGroupLimits(f.ctx(), "No Queue", "a", job.GroupLimits{}); err == nil {
		f.t.Error("limits of a queue that cannot be were taken")
	}
	if err := f.ResetGroupLimits(f.ctx(), "default", "never set"); err != nil {
		f.t.Errorf("resetting what was never set = %v, want nil", err)
	}
	long := string(make([]byte, 300))
	if _, err := f.Enqueue(f.ctx(), job.Job{Group: long}); err == nil {
		f.t.Error("a group of 300 bytes was taken")
	}
}

// measured counts the starts of a rate of 40 a second in two seconds. The rate is what
// they must not exceed, but for a burst that was saved up; on a busy machine they may
// be fewer.
func (f *fixture) measured(executors ...*executor) {
	f.t.Helper()
	count := func() (n int) {
		for _, c := range executors {
			n += len(c.of(""))
		}
		return n
	}
	f.eventually("the burst is over", func() bool { return count() >= 10 })
	f.pass(200 * time.Millisecond)
	before, begin := count(), time.Now()
	f.pass(2 * time.Second)
	n, want := float64(count()-before), 40*time.Since(begin).Seconds()
	if n < want/3 || n > 1.1*want+1+float64(slowly.Burst) {
		f.t.Errorf("%v jobs started, want about %.1f", n, want)
	}
}

var slowly = job.GroupLimits{Rate: 40, Burst: 4}

func testGroupRate(f *fixture) {
	f.open(queue.Config{})
	f.enqueueAll(grouped(200, "a"))
	c := newExecutor(16, short)
	f.work(f.Queue, c, queue.WorkConfig{Group: slowly})
	f.measured(c)
	// Without the limit the rest begins at once.
	if err := f.SetGroupLimits(f.ctx(), "default", "a", job.GroupLimits{}); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("all run", func() bool { return len(c.of("")) == 200 })
}

func testGroupRateNodes(f *fixture) {
	f.open(queue.Config{})
	a, b, other := newExecutor(16, short), newExecutor(16, short), f.another()
	f.work(f.Queue, a, queue.WorkConfig{Group: slowly})
	f.work(other, b, queue.WorkConfig{Group: slowly})
	f.enqueueAll(grouped(200, "a"))
	f.measured(a, b)
}

func testGroupNodes(f *fixture) {
	f.open(queue.Config{Lease: 2 * time.Second})
	y := newGroupRuns()
	limits := queue.WorkConfig{Group: job.GroupLimits{Concurrency: 2}}
	for _, q := range []*queue.Queue{f.Queue, f.another(), f.another()} {
		f.work(q, newExecutor(4, y.around(slow)), limits)
	}
	var all []job.Job
	for i := range 40 {
		for _, g := range []string{"a", "b"} {
			all = append(all, job.Job{Name: g, Group: g, Priority: job.Priority(i % 3)})
		}
	}
	ids := f.enqueueAll(all)
	for _, id := range ids {
		f.good(id)
	}
	for _, g := range []string{"a", "b"} {
		if most := y.peak(g); most > 2 {
			f.t.Errorf("of group %s %d jobs ran at the same time on three nodes, want 2 at most", g, most)
		}
	}
	f.once(ids...)
	f.empty()
}
