//go:build unix

package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

// sharers are pools whose tasks share calls, by protocol and shape.
var sharers = map[string]func() Config{
	"frames": func() Config { return Config{Command: []string{self()}} },
	"http": func() Config {
		return Config{Command: []string{self(), "web", "list"}, Protocol: HTTP, HTTP: HTTPWorker{Path: "/list"}}
	},
	"lambda": func() Config { return Config{Command: []string{self(), "function", "list"}, Protocol: Lambda} },
	"sqs": func() Config {
		return Config{Command: []string{self(), "function", "sqs"}, Protocol: Lambda, Batch: Batch{Shape: ShapeSQS}}
	},
}

// sharedPool is a pool with one worker, which is ready, and calls of up to four tasks. A call
// with fewer waits for an hour.
func sharedPool(t *testing.T, kind string, change func(*Config)) *Pool {
	t.Helper()
	c := sharers[kind]()
	c.Min, c.Max, c.Name = 1, 1, "thumbs"
	c.Batch.Max, c.Batch.Wait = 4, time.Hour
	if change != nil {
		change(&c)
	}
	p := open(t, c)
	if err := p.Ready(within(t, time.Minute), c.Min); err != nil {
		t.Fatal(err)
	}
	return p
}

// errands are tasks that share a call.
func errands(t *testing.T, all ...errand) (tasks []bullpen.Task) {
	t.Helper()
	for i, d := range all {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, bullpen.Task{Name: "list", ID: strconv.Itoa(i), Payload: text})
	}
	return tasks
}

// endsOf says how tasks have ended.
func endsOf(all []bullpen.Ended) string {
	var words []string
	for _, e := range all {
		o, started := bullpen.OutcomeOf(e.Err)
		word := o.String()
		if !started {
			word = "never started"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func TestSharedCalls(t *testing.T) {
	t.Parallel()
	for kind := range sharers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := sharedPool(t, kind, nil)
			tasks := errands(t, errand{"", "a"}, errand{"fail", "no such user"}, errand{"", "c"}, errand{"fail", "neither"})
			ends := p.ExecuteAll(within(t, time.Minute), tasks)
			if got := endsOf(ends); got != "ok, failed, ok, failed" {
				t.Fatalf("%s: %v", got, ends)
			}
			var te *bullpen.TaskError
			if !errors.As(ends[1].Err, &te) || te.ID != "1" || te.Task != "list" || te.Worker == "" {
				t.Errorf("%+v", te)
			}
			if kind == "sqs" {
				if te.Type != "BatchItemFailure" || !te.Retryable || len(ends[0].Result.Payload) > 0 {
					t.Errorf("%+v, a result of %q", te, ends[0].Result.Payload)
				}
			} else if te.Message != "no such user" || te.Retryable || string(ends[2].Result.Payload) != string(tasks[2].Payload) {
				t.Errorf("%+v, a result of %q", te, ends[2].Result.Payload)
			}
			whole := p.ExecuteAll(within(t, time.Minute), errands(t, errand{}, errand{}, errand{"whole", "out of order"}, errand{}))
			if got := endsOf(whole); got != "failed, failed, failed, failed" || !strings.Contains(whole[0].Err.Error(), "out of order") {
				t.Errorf("an error of the call: %s, %v", got, whole[0].Err)
			}
			if s := p.Stats(); s.Accepted != 8 || s.RunTime.Count != 8 || s.QueueTime.Count != 8 || s.Total() != 8 {
				t.Errorf("%+v", s)
			}
			if w := p.Workers()[0]; w.Served != 8 || w.InHand != 0 {
				t.Errorf("%+v", w)
			}
			wantNeverStarted(t, refusal(t, p, []byte("\xff")), bullpen.ErrRefused)
		})
	}
}

func refusal(t *testing.T, p *Pool, payload []byte) error {
	t.Helper()
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "list", Payload: payload})
	return err
}

// TestSharedAnswers: what cannot be told apart is the end of all.
func TestSharedAnswers(t *testing.T) {
	t.Parallel()
	sqs := sharedPool(t, "sqs", nil)
	for answer, want := range map[string]string{
		`null`: "ok, ok, ok, ok", `{"batchItemFailures":[{"itemIdentifier":"2"}]}`: "ok, ok, failed, ok",
		`{"batchItemFailures":[{"itemIdentifier":"9"}]}`: "failed, failed, failed, failed", `"done"`: "failed, failed, failed, failed",
	} {
		if got := endsOf(sqs.ExecuteAll(within(t, time.Minute), errands(t, errand{"answer", answer}, errand{}, errand{}, errand{}))); got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
	list := sharedPool(t, "lambda", nil)
	ends := list.ExecuteAll(within(t, time.Minute), errands(t, errand{}, errand{}, errand{"short", ""}, errand{}))
	if got := endsOf(ends); got != "failed, failed, failed, failed" || !strings.Contains(ends[0].Err.Error(), "0 results for 4 tasks") {
		t.Errorf("a short answer: %s, %v", got, ends[0].Err)
	}
	small := sharedPool(t, "lambda", func(c *Config) { c.Limits.Output = 100 })
	ends = small.ExecuteAll(within(t, time.Minute), errands(t, errand{}, errand{}, errand{"", strings.Repeat("x", 200)}, errand{}))
	if got := endsOf(ends); got != "output, output, output, output" {
		t.Errorf("an answer that is too large: %s", got)
	}
	tasks := errands(t, errand{}, errand{"", strings.Repeat("x", 200)}, errand{}, errand{})
	tasks[1].Limits.Output = 100
	if got := endsOf(list.ExecuteAll(within(t, time.Minute), tasks)); got != "ok, output, ok, ok" {
		t.Errorf("a result that is too large: %s", got)
	}
}

// TestSharedWindow: a call waits for its tasks, no longer than it must.
func TestSharedWindow(t *testing.T) {
	t.Parallel()
	p := sharedPool(t, "lambda", func(c *Config) { c.Batch.Wait = 50 * ms })
	sizes := func(n int) (all []string) {
		for _, e := range p.ExecuteAll(within(t, time.Minute), slices.Repeat(errands(t, errand{"size", ""}), n)) {
			all = append(all, string(e.Result.Payload))
		}
		return all
	}
	began := time.Now()
	if got := sizes(1); !slices.Equal(got, []string{"1"}) || time.Since(began) < 50*ms {
		t.Errorf("alone: %v after %v", got, time.Since(began))
	}
	if got := sizes(10); !slices.Equal(got, []string{"4", "4", "4", "4", "4", "4", "4", "4", "2", "2"}) {
		t.Errorf("ten: %v", got)
	}
	poll(t, "there is room for a call", func() bool { return p.Capacity() == 4 })
	// An hour is cut short by a full queue, by the end of the pool, and by a suspect.
	full := sharedPool(t, "lambda", func(c *Config) { c.Queue = 2 })
	if got := endsOf(full.ExecuteAll(within(t, time.Minute), errands(t, errand{}, errand{}, errand{}, errand{}))); got != "ok, ok, ok, ok" {
		t.Errorf("a short queue: %s", got)
	}
	last := sharedPool(t, "sqs", nil)
	ended := make(chan error, 1)
	if err := last.Submit(t.Context(), bullpen.Task{}, func(_ bullpen.Result, err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	if err := last.Drain(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	alone := sharedPool(t, "lambda", nil)
	task := errands(t, errand{"size", ""})[0]
	task.Meta = map[string]string{MetaRedelivered: "true"}
	if r, err := alone.Execute(within(t, time.Minute), task); err != nil || string(r.Payload) != "1" {
		t.Errorf("a suspect: %s, %v", r.Payload, err)
	}
}

// TestInputBound: what does not fit opens the next call, and tasks of other names theirs.
func TestInputBound(t *testing.T) {
	t.Parallel()
	p := sharedPool(t, "lambda", func(c *Config) { c.Batch.Wait = 200 * ms })
	big := bullpen.Task{Name: "list", Payload: []byte(`{"Do":"size","Arg":"` + strings.Repeat("x", 2<<20) + `"}`)}
	small := errands(t, errand{"size", ""})[0]
	other := small
	other.Name = "other"
	var got []string
	for _, e := range p.ExecuteAll(within(t, time.Minute), []bullpen.Task{big, other, big, big, small}) {
		got = append(got, string(e.Result.Payload))
	}
	if want := []string{"2", "1", "2", "2", "2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestCrashOfSharedCall ends the tasks of that call, and no other. One by one, only the bad
// one ends so.
func TestCrashOfSharedCall(t *testing.T) {
	t.Parallel()
	for kind := range sharers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := sharedPool(t, kind, func(c *Config) { c.Min, c.Max = 2, 2 })
			tasks := errands(t, errand{}, errand{}, errand{"exit", ""}, errand{}, errand{}, errand{}, errand{}, errand{})
			ends := p.ExecuteAll(within(t, time.Minute), tasks)
			if got := endsOf(ends); got != "crashed, crashed, crashed, crashed, ok, ok, ok, ok" {
				t.Fatalf("%s: %v", got, ends)
			}
			if text := ends[0].Err.Error(); !strings.Contains(text, "3 other tasks") {
				t.Errorf("%s", text)
			}
			for i := range tasks[:4] {
				tasks[i].Meta = map[string]string{MetaRedelivered: "true"}
			}
			if got := endsOf(p.ExecuteAll(within(t, time.Minute), tasks[:4])); got != "ok, ok, crashed, ok" {
				t.Errorf("one by one: %s", got)
			}
		})
	}
}

// TestOutputOfSharedCalls reaches the observers of all tasks, and each before its outcome.
func TestOutputOfSharedCalls(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"lambda", "sqs"} {
		p := sharedPool(t, kind, nil)
		tasks := errands(t, errand{"print", "one"}, errand{}, errand{"print", "two"}, errand{})
		seen := make([]notes, 4)
		for i := range tasks[:3] {
			tasks[i].Observer = &seen[i]
		}
		if got := endsOf(p.ExecuteAll(within(t, time.Minute), tasks)); got != "ok, ok, ok, ok" {
			t.Fatal(got)
		}
		for i := range seen[:3] {
			if got := printedBy(&seen[i]); got != "stdout: one\nstdout: two\n" {
				t.Errorf("%s, task %d: %q", kind, i, got)
			}
		}
	}
}

// TestReceiveCount: a message has the number of its attempt.
func TestReceiveCount(t *testing.T) {
	t.Parallel()
	p := sharedPool(t, "sqs", func(c *Config) { c.Batch.Wait = time.Millisecond })
	seen := &notes{}
	task := errands(t, errand{"attempt", ""})[0]
	task.Observer, task.Meta = seen, map[string]string{metaAttempt: "3"}
	if _, err := p.Execute(within(t, time.Minute), task); err != nil || printedBy(seen) != "stdout: 0 3 of 1\n" {
		t.Errorf("%q, %v", printedBy(seen), err)
	}
}

func TestBatchFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Batch: Batch{Max: -1}}, "Batch.Max is -1"},
		{Config{Batch: Batch{Wait: time.Second}}, "Batch.Max is 0"},
		{Config{Batch: Batch{Max: MaxBatch + 1}}, "use 1 to 10000"},
		{Config{Batch: Batch{Max: 2, Wait: -1}}, "Batch.Wait is -1ns"},
		{Config{Batch: Batch{Max: 2, Shape: 9}}, "Batch.Shape is 9"},
		{Config{Protocol: Lines, Batch: Batch{Max: 2}}, "the protocol is lines"},
		{Config{Protocol: Exec, Batch: Batch{Max: 2}}, "the protocol is exec"},
		{Config{Protocol: HTTP, Batch: Batch{Max: 2, Shape: ShapeSQS}}, "for the protocol lambda only"},
	} {
		c.config.Command = []string{self()}
		if err := c.config.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.config.Batch, err, c.want)
		}
	}
}

// TestSoakOfSharedCalls does to pools at random all that can be done to them.
func TestSoakOfSharedCalls(t *testing.T) {
	for kind, config := range sharers {
		t.Run(kind, func(t *testing.T) {
			leak.Check(t)
			s := &soak{t: t, config: config(), vary: func(c *Config) {
				c.Batch.Max, c.Batch.Wait = 1+rand.IntN(20), time.Duration(rand.IntN(3000))*time.Microsecond
			}}
			name := "list"
			if kind == "sqs" {
				name = "sqs" // it has no results
			}
			s.task = func() bullpen.Task {
				t := bullpen.Task{Name: name, Payload: fmt.Append(nil, rand.Int())}
				switch rand.IntN(60) {
				case 0:
					t.Payload = []byte(`{"Do":"sleep","Arg":"5ms"}`)
				case 1:
					t.Payload, t.ID = []byte(`{"Do":"fail","Arg":"no"}`), "failed"
				case 2:
					t.Payload, t.Limits.Timeout = []byte(`{"Do":"sleep","Arg":"20ms"}`), 3*ms
				case 3:
					t.Payload = fmt.Appendf(nil, "%q", large[:40_000+rand.IntN(50_000)])
				}
				return t
			}
			s.run()
		})
	}
}
