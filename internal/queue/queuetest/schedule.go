package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// scheduling are the clauses on schedules.
func scheduling() []clause {
	return []clause{
		{name: "ScheduleIsKept", test: testScheduleKept},
		{name: "FaultsOfSchedules", test: testScheduleFaults},
		{name: "ScheduleRace", test: testScheduleRace},
		{name: "ScheduleFires", test: testScheduleFires},
		{name: "ScheduleByHand", test: testScheduleByHand},
		{name: "ScheduleSurvivesReopen", test: testScheduleReopen},
		{name: "ScheduleOnThreeNodes", test: testScheduleNodes, nodes: true},
		{name: "ScheduleChangedByAnotherNode", test: testScheduleElsewhere, nodes: true},
	}
}

// fire runs FireSchedules on q until the end of the test, or until stop is called.
func (f *fixture) fire(q *queue.Queue) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.FireSchedules(ctx) }() // ends with ctx; stop waits
	stop = sync.OnceFunc(func() {
		cancel()
		if err := await(f, "FireSchedules returns", ended); err != nil && !errors.Is(err, job.ErrClosed) {
			f.t.Errorf("FireSchedules = %v, want nil after the end of its context", err)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) schedule(s job.Schedule) job.ScheduleInfo {
	f.t.Helper()
	info, err := f.PutSchedule(f.ctx(), s)
	if err != nil {
		f.t.Fatalf("PutSchedule %q = %v", s.Name, err)
	}
	return info
}

func (f *fixture) scheduled(name string) job.ScheduleInfo {
	f.t.Helper()
	info, err := f.GetSchedule(f.ctx(), name)
	if err != nil {
		f.t.Fatalf("GetSchedule %q = %v", name, err)
	}
	return info
}

// ticks gives how often each tick of a schedule has started, and in their order.
func (c *executor) ticks(name string) (counts map[time.Time]int, order []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts = make(map[time.Time]int)
	for _, s := range c.starts {
		if s.Schedule == name {
			counts[s.Tick.UTC()]++
		}
	}
	return counts, slices.SortedFunc(maps.Keys(counts), time.Time.Compare)
}

// steady wants the ticks of a schedule to have run once each, none left out.
func (f *fixture) steady(c *executor, name string, d time.Duration, least int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d ticks of %q have run", least, name), func() bool {
		counts, _ := c.ticks(name)
		return len(counts) >= least
	})
	counts, order := c.ticks(name)
	for i, tick := range order {
		if counts[tick] != 1 {
			f.t.Errorf("the tick %v of %q ran %d times", tick, name, counts[tick])
		}
		if i > 0 && tick.Sub(order[i-1]) != d {
			f.t.Errorf("the ticks %v and %v of %q follow each other, want %v between", order[i-1], tick, name, d)
		}
	}
}

func testScheduleKept(f *fixture) {
	f.open(queue.Config{})
	want := job.Schedule{
		Name: "reports.nightly-2_x", Cron: "30 2 29 2 *", Missed: job.MissedAll, Overlap: job.OverlapForbid, Paused: true, Origin: "config",
		Job: job.Job{
			Queue: "reports", Name: "render", Payload: []byte("all"), Meta: map[string]string{"a": "b"}, Priority: job.Low,
			Limits: bullpen.Limits{Timeout: time.Minute}, Retry: job.Retry{Attempts: 2}, Idempotent: true, Compensate: "undo",
		},
	}
	f.schedule(want)
	f.schedule(job.Schedule{Name: "a", Every: time.Hour, Job: job.Job{Name: "x"}})
	f.reopen()
	got := f.scheduled(want.Name)
	if fmt.Sprintf("%+v", got.Schedule) != fmt.Sprintf("%+v", want) || !got.Next.IsZero() || !got.Last.IsZero() || got.LastJob != "" {
		f.t.Errorf("GetSchedule = %+v\nwant %+v that has never fired", got, want)
	}
	info, err := f.PauseSchedule(f.ctx(), want.Name, false)
	if next := info.Next.UTC(); err != nil || info.Paused || next.Month() != time.February || next.Day() != 29 || next.Hour() != 2 || next.Minute() != 30 {
		f.t.Errorf("PauseSchedule = %+v, %v, want it resumed, and next on 29 February 02:30", info, err)
	}
	all, err := f.ListSchedules(f.ctx())
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != want.Name || all[0].Job.Queue != "default" {
		f.t.Errorf("ListSchedules = %+v, %v, want the two in the order of their names", all, err)
	}
	if err := f.RemoveSchedule(f.ctx(), "a"); err != nil {
		f.t.Errorf("RemoveSchedule = %v", err)
	}
	f.reopen()
	if _, err := f.GetSchedule(f.ctx(), "a"); !errors.Is(err, job.ErrNoSchedule) {
		f.t.Errorf("GetSchedule of one that was removed = %v, want ErrNoSchedule", err)
	}
	if err := f.RemoveSchedule(f.ctx(), "a"); !errors.Is(err, job.ErrNoSchedule) {
		f.t.Errorf("RemoveSchedule of one that was removed = %v, want ErrNoSchedule", err)
	}
}

func testScheduleFaults(f *fixture) {
	f.open(queue.Config{MaxPayload: 1000})
	for _, c := range []struct {
		change func(*job.Schedule)
		words  string
	}{
		{func(s *job.Schedule) { s.Name = "" }, "Name is empty"},
		{func(s *job.Schedule) { s.Name = "No Name" }, "lower-case letters"},
		{func(s *job.Schedule) { s.Name = ".." }, "begin with another character"},
		{func(s *job.Schedule) { s.Name = strings.Repeat("x", 129) }, "128 at most"},
		{func(s *job.Schedule) { s.Every = time.Minute }, "both set"},
		{func(s *job.Schedule) { s.Cron = "" }, "both empty"},
		{func(s *job.Schedule) { s.Cron = "* * *" }, "Cron"},
		{func(s *job.Schedule) { s.Cron = "0 0 31 2 *" }, "Cron"},
		{func(s *job.Schedule) { s.Cron, s.Every = "", time.Millisecond }, "100ms"},
		{func(s *job.Schedule) { s.Cron, s.Every, s.Zone = "", time.Minute, "UTC" }, "applies to Cron only"},
		{func(s *job.Schedule) { s.Zone = "Europe/Berlyn" }, "Europe/Berlyn"},
		{func(s *job.Schedule) { s.Zone = "Local" }, "another on each machine"},
		{func(s *job.Schedule) { s.Missed = 9 }, "MissedOnce"},
		{func(s *job.Schedule) { s.Overlap = 9 }, "OverlapAllow"},
		{func(s *job.Schedule) { s.Origin = "Me!" }, "Origin"},
		{func(s *job.Schedule) { s.Job.Key = "k" }, "leave them out"},
		{func(s *job.Schedule) { s.Job.Delay = 1 }, "leave them out"},
		{func(s *job.Schedule) { s.Job.Deadline = time.Now().Add(time.Hour) }, "leave them out"},
		{func(s *job.Schedule) { s.Job.Queue = "No" }, "Queue"},
		{func(s *job.Schedule) { s.Job.Payload = make([]byte, 1001) }, "MaxPayload"},
		{func(s *job.Schedule) { s.Name, s.Zone = "X", "nowhere" }, "nowhere"},
	} {
		s := job.Schedule{Name: "a", Cron: "* * * * *", Job: job.Job{Name: "x"}}
		c.change(&s)
		if _, err := f.PutSchedule(f.ctx(), s); err == nil || !strings.Contains(err.Error(), c.words) {
			f.t.Errorf("PutSchedule %+v = %v, want an error with %q", s, err, c.words)
		}
	}
	if all, err := f.ListSchedules(f.ctx()); err != nil || len(all) != 0 {
		f.t.Errorf("ListSchedules = %+v, %v, want none", all, err)
	}
	for what, err := range map[string]error{
		"GetSchedule":   errOf(f.GetSchedule(f.ctx(), "nothing")),
		"PauseSchedule": errOf(f.PauseSchedule(f.ctx(), "nothing", true)),
		"FireSchedule":  errOf(f.FireSchedule(f.ctx(), "Not A Name")),
	} {
		if !errors.Is(err, job.ErrNoSchedule) {
			f.t.Errorf("%s = %v, want ErrNoSchedule", what, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// testScheduleRace has several callers change one schedule at the same time: each
// is done, and one of them is what stands there.
func testScheduleRace(f *fixture) {
	f.open(queue.Config{})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() { // ends with its call; waited for below
			s := job.Schedule{Name: "a", Every: time.Hour, Job: job.Job{Name: fmt.Sprint("task", i)}}
			if _, err := f.PutSchedule(f.ctx(), s); err != nil {
				f.t.Errorf("PutSchedule = %v", err)
			}
		})
	}
	callers.Wait()
	if i := f.scheduled("a"); !strings.HasPrefix(i.Job.Name, "task") {
		f.t.Errorf("GetSchedule = %+v", i)
	}
}

func testScheduleFires(f *fixture) {
	const d = 200 * time.Millisecond
	f.open(queue.Config{})
	c := f.staff(8, echo)
	stop := f.fire(f.Queue)
	f.schedule(job.Schedule{Name: "a", Every: d, Job: job.Job{Name: "x", Payload: []byte("p")}})
	f.schedule(job.Schedule{Name: "paused", Every: d, Paused: true, Job: job.Job{Name: "x"}})
	f.steady(c, "a", d, 5)
	stop()
	i := f.scheduled("a")
	if counts, order := c.ticks("a"); i.Fired != uint64(len(counts)) && i.Fired != uint64(len(counts))+1 || i.Last.Before(order[len(order)-1]) {
		f.t.Errorf("GetSchedule = %+v after %d ticks until %v", i, len(counts), order[len(order)-1])
	}
	f.good(i.LastJob)
	if i = f.scheduled("a"); i.LastState != "done" || i.Err != "" {
		f.t.Errorf("GetSchedule = %+v, want the last job done", i)
	}
	info := f.get(i.LastJob)
	if info.Schedule != "a" || !info.Tick.Equal(i.Last) || string(info.Result) != "p" {
		f.t.Errorf("Get = %+v, want the tick %v of \"a\"", info, i.Last)
	}
	if counts, _ := c.ticks("paused"); len(counts) != 0 {
		f.t.Errorf("the paused one ran %v", counts)
	}
	if s := f.Stats().Schedules; s.Fired != i.Fired || s.Known != 0 || s.Late.Count != s.Fired {
		f.t.Errorf("Stats = %+v, want %d fired", s, i.Fired)
	}
}

func testScheduleByHand(f *fixture) {
	f.open(queue.Config{})
	f.schedule(job.Schedule{Name: "a", Cron: "0 0 1 1 *", Paused: true, Overlap: job.OverlapForbid, Job: job.Job{Queue: "q", Name: "x"}})
	ref, err := f.FireSchedule(f.ctx(), "a")
	if err != nil {
		f.t.Fatalf("FireSchedule = %v", err)
	}
	if info := f.get(ref.ID); info.Queue != "q" || info.Name != "x" || info.Schedule != "a" || time.Since(info.Tick) > Patience {
		f.t.Errorf("Get = %+v, want it of \"a\" and of now", info)
	}
	if i := f.scheduled("a"); i.LastJob != ref.ID || i.LastState != "queued" || !i.Last.IsZero() {
		f.t.Errorf("GetSchedule = %+v, want the last job %s", i, ref.ID)
	}
	if _, err := f.FireSchedule(f.ctx(), "a"); !errors.Is(err, job.ErrOverlap) {
		f.t.Errorf("FireSchedule again = %v, want ErrOverlap", err)
	}
	if err := f.Cancel(f.ctx(), ref.ID); err != nil {
		f.t.Error(err)
	}
	if _, err := f.FireSchedule(f.ctx(), "a"); err != nil {
		f.t.Errorf("FireSchedule after the end of the last job = %v", err)
	}
}

func testScheduleReopen(f *fixture) {
	const d = 200 * time.Millisecond
	f.open(queue.Config{})
	c := newExecutor(8, echo)
	w := f.work(f.Queue, c, queue.WorkConfig{})
	stop := f.fire(f.Queue)
	f.schedule(job.Schedule{Name: "a", Every: d, Missed: job.MissedAll, Job: job.Job{Name: "x"}})
	f.steady(c, "a", d, 2)
	stop()
	w.stop()
	f.reopen()
	f.work(f.Queue, c, queue.WorkConfig{})
	f.fire(f.Queue)
	n, _ := c.ticks("a")
	f.steady(c, "a", d, len(n)+3)
}

func testScheduleNodes(f *fixture) {
	const d = 250 * time.Millisecond
	f.open(queue.Config{})
	c := f.staff(8, echo)
	others := []*queue.Queue{f.another(), f.another()}
	stop := f.fire(f.Queue)
	for _, q := range others {
		f.fire(q)
	}
	for i := range 5 {
		f.schedule(job.Schedule{Name: fmt.Sprint("s", i), Every: d, Missed: job.MissedAll, Job: job.Job{Name: "x"}})
	}
	check := func(least int) {
		f.t.Helper()
		for i := range 5 {
			f.steady(c, fmt.Sprint("s", i), d, least)
		}
	}
	check(4)
	stop()
	check(8)
	f.shut(others[0])
	check(16)
}

func testScheduleElsewhere(f *fixture) {
	const d = 100 * time.Millisecond
	f.open(queue.Config{})
	c := f.staff(8, echo)
	f.fire(f.another())
	f.schedule(job.Schedule{Name: "a", Every: d, Job: job.Job{Name: "x"}})
	f.steady(c, "a", d, 3)
	if _, err := f.PauseSchedule(f.ctx(), "a", true); err != nil {
		f.t.Fatal(err)
	}
	f.pass(moment) // it may be firing just now
	before := f.scheduled("a").Fired
	f.pass(5 * d)
	if after := f.scheduled("a").Fired; after != before {
		f.t.Errorf("%d ticks after it was paused on another node", after-before)
	}
	if _, err := f.PauseSchedule(f.ctx(), "a", false); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("it ticks again", func() bool { return f.scheduled("a").Fired >= before+2 })
	if err := f.RemoveSchedule(f.ctx(), "a"); err != nil {
		f.t.Fatal(err)
	}
	f.pass(moment)
	n, _ := c.ticks("a")
	f.pass(5 * d)
	if after, _ := c.ticks("a"); len(after) > len(n)+1 {
		f.t.Errorf("%d ticks after it was removed on another node", len(after)-len(n))
	}
}
