//go:build linux

package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/natstest"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// clockVar has the clockConfig of a node that fires schedules.
const clockVar = "BULLPEN_TEST_CLOCK"

// clockConfig says what a node does that fires schedules and works on their jobs.
type clockConfig struct {
	Dir   string // of an embedded store, or
	URL   string // of a cluster
	Node  string
	Ahead time.Duration // of its clock
	Ran   string        // the file to which handlers append
}

// ahead is a store whose node has a wrong clock.
type ahead struct {
	queue.Store
	by time.Duration
}

// aheadEngine is engine.Clock.
type aheadEngine struct {
	engine.Engine
	by time.Duration
}

func (e aheadEngine) Now() time.Time { return time.Now().Add(e.by) }

func (s ahead) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	e, err := s.Store.Open(ctx, o)
	return aheadEngine{e, s.by}, err
}

func (c *clockConfig) config() queue.Config {
	var store queue.Store = embedded.At(c.Dir)
	if c.URL != "" {
		store = queue.Server{URL: c.URL, Replicas: 3}
	}
	return queue.Config{Store: ahead{store, c.Ahead}, Node: c.Node, Lease: 2 * time.Second, Retry: job.Retry{Nodes: 1000}}
}

// run makes this process the node, until it is killed or its input ends.
func (c *clockConfig) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := queue.Open(ctx, c.config())
	if err != nil {
		return err
	}
	e, err := pool.New(pool.Config{Max: 4, Handlers: map[string]bullpen.Handler{"note": c.note}})
	if err != nil {
		return err
	}
	fmt.Println("up")
	go io.Copy(io.Discard, os.Stdin) //nolint:errcheck // ends with this process
	var both sync.WaitGroup
	both.Go(func() { // ends with this process, or with ctx
		for ctx.Err() == nil {
			if err := q.Work(ctx, e, queue.WorkConfig{Queue: workQueue}); err != nil {
				fmt.Println("work", err)
			}
		}
	})
	both.Go(func() { // the same
		if err := q.FireSchedules(ctx); err != nil {
			fmt.Println("fault", err)
		}
	})
	both.Wait()
	return nil
}

// note appends which tick runs.
func (c *clockConfig) note(_ context.Context, t bullpen.Task) ([]byte, error) {
	f, err := os.OpenFile(c.Ran, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a := queue.AttemptOf(t)
	_, err = fmt.Fprintf(f, "%s %d %t %s\n", a.Schedule, a.Tick.UnixMilli(), a.Redelivered, t.ID)
	return nil, err
}

// clockNode is a process that fires schedules.
type clockNode struct {
	cmd   *exec.Cmd
	stdin io.Closer
	up    chan struct{} // closed when it is ready
	read  chan struct{} // closed when it has ended
}

func startClock(t *testing.T, c clockConfig) *clockNode {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &clockNode{cmd: exec.Command(exe), up: make(chan struct{}), read: make(chan struct{})}
	n.cmd.Env = append(os.Environ(), clockVar+"="+string(text), "GORACE=halt_on_error=1")
	n.cmd.Stderr = os.Stderr
	stdout, err := n.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if n.stdin, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process; kill waits
		defer close(n.read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "up":
				close(n.up)
			case strings.HasPrefix(line, "fault"):
				t.Errorf("node %s says: %s", c.Node, line)
			}
		}
	}()
	t.Cleanup(n.kill)
	return n
}

func (n *clockNode) ready(t *testing.T) {
	t.Helper()
	select {
	case <-n.up:
	case <-n.read:
		t.Fatal("the node ended before it was up")
	case <-time.After(patience):
		t.Fatal("the node does not come up")
	}
}

// kill ends the node by SIGKILL. It may be called again.
func (n *clockNode) kill() {
	_ = n.cmd.Process.Kill() // an error says that it has ended
	<-n.read
	_ = n.cmd.Wait() // says that it was killed
	n.stdin.Close()
}

// clockSchedules are what the nodes fire.
var clockSchedules = map[string]time.Duration{"fast": 100 * time.Millisecond, "slow": 700 * time.Millisecond}

func putClockSchedules(t *testing.T, q *queue.Queue) {
	t.Helper()
	for name, d := range clockSchedules {
		s := job.Schedule{Name: name, Every: d, Missed: job.MissedAll, Job: job.Job{Queue: workQueue, Name: "note"}}
		if _, err := q.PutSchedule(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// checkTicks wants each tick to have one job and one outcome, none left out; and a
// run beyond the first only of a job that knew it.
func checkTicks(t *testing.T, q *queue.Queue, ran string) (ticks, again int) {
	t.Helper()
	byTick := make(map[string][]time.Time)
	for f := (job.Filter{States: []job.State{job.Done, job.Dead, job.Canceled}, Limit: 5000}); ; {
		page, err := q.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if j.Outcome != bullpen.OK {
				t.Errorf("job %s of the tick %v ended %v", j.ID, j.Tick, j.Err)
			}
			byTick[j.Schedule] = append(byTick[j.Schedule], j.Tick)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	for name, d := range clockSchedules {
		all := byTick[name]
		slices.SortFunc(all, time.Time.Compare)
		ticks += len(all)
		for i := 1; i < len(all); i++ {
			if gap := all[i].Sub(all[i-1]); gap != d {
				t.Errorf("the ticks %v and %v of %q follow each other, want %v between", all[i-1], all[i], name, d)
			}
		}
		info, err := q.GetSchedule(t.Context(), name)
		if err != nil || info.Fired != uint64(len(all)) || info.Skipped != 0 {
			t.Errorf("%q counts %d fired and %d skipped, want %d and 0, %v", name, info.Fired, info.Skipped, len(all), err)
		}
	}
	text, err := os.ReadFile(ran)
	if err != nil {
		t.Fatal(err)
	}
	runs := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			t.Fatalf("the line %q", line)
		}
		key := f[0] + " " + f[1]
		if runs[key]++; runs[key] > 1 {
			again++
			if f[2] != "true" {
				t.Errorf("the tick %s ran again and did not know it: %s", key, text)
			}
		}
	}
	if len(runs) != ticks {
		t.Errorf("%d ticks have run, and %d have an outcome", len(runs), ticks)
	}
	return ticks, again
}

// settleTicks takes the place of nodes that were killed: it fires for a while, ends that,
// and lets all jobs that were enqueued end. After that nobody fires: on a busy machine
// what a pause of the schedules finds under way may take long.
func settleTicks(t *testing.T, q *queue.Queue, c clockConfig, span time.Duration) {
	t.Helper()
	fires, stop := context.WithCancel(t.Context())
	fired := make(chan error, 1)
	go func() { fired <- q.FireSchedules(fires) }() // ends with fires; waited for below
	e, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{"note": c.note}})
	closing(t, e, err)
	startWork(t, q, e, queue.WorkConfig{Queue: workQueue})
	pause(span)
	stop()
	if err := <-fired; err != nil {
		t.Error(err)
	}
	until(t, "all jobs have left the queue", func() bool {
		s, err := q.Status(t.Context())
		return err == nil && s.Jobs.Messages == 0
	})
}

// The only node is killed again and again, at any moment, and started again: each
// tick has one job, also those in between.
func TestSchedulesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := clockConfig{Dir: filepath.Join(dir, "store"), Ran: filepath.Join(dir, "ran"), Node: "n"}
	q, err := queue.Open(t.Context(), c.config())
	if err != nil {
		t.Fatal(err)
	}
	putClockSchedules(t, q)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	kills := rounds(8, 100)
	for range kills {
		n := startClock(t, c)
		n.ready(t)
		pause(rand.N(500 * time.Millisecond))
		n.kill()
	}
	q = openQueue(t, c.config())
	settleTicks(t, q, c, time.Second)
	ticks, again := checkTicks(t, q, c.Ran)
	t.Logf("%d kills, %d ticks, %d runs again", kills, ticks, again)
}

// Three nodes of a cluster, whose clocks differ by seconds, are killed and started
// again at any moment: each tick has one job.
func TestSchedulesCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Servers: 3})
	ran := filepath.Join(t.TempDir(), "ran")
	at := func(i int) clockConfig {
		return clockConfig{
			URL: k.URL(), Node: fmt.Sprint("n", i), Ran: ran,
			Ahead: []time.Duration{-2 * time.Second, 0, 3 * time.Second}[i],
		}
	}
	watcher := at(1)
	watcher.Node = "watcher"
	q := openQueue(t, watcher.config())
	putClockSchedules(t, q)
	nodes := make([]*clockNode, 3)
	for i := range nodes {
		nodes[i] = startClock(t, at(i))
	}
	for _, n := range nodes {
		n.ready(t)
	}
	kills := rounds(4, 40)
	for range kills {
		pause(rand.N(2 * time.Second))
		i := rand.IntN(3)
		nodes[i].kill()
		pause(rand.N(500 * time.Millisecond))
		nodes[i] = startClock(t, at(i))
		nodes[i].ready(t)
	}
	for _, n := range nodes {
		n.kill()
	}
	settleTicks(t, q, watcher, 10*time.Second) // until the clock is well past where the fastest one was
	ticks, again := checkTicks(t, q, ran)
	t.Logf("%d kills, %d ticks, %d runs again", kills, ticks, again)
}
