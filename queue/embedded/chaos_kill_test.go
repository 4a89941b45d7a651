//go:build linux

package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// The node with its worker processes is killed again and again under load. In
// the end each confirmed job has exactly one outcome, no job that had one ran
// again, and those that ran again were in hand at a kill and knew it.
func TestChaosKill(t *testing.T) {
	t.Parallel()
	dir, b, kills := t.TempDir(), newBook(), rounds(4, 20)
	c := nodeConfig{
		Dir: filepath.Join(dir, "store"), Lease: time.Second, Ran: filepath.Join(dir, "ran"), Mark: dir,
		Workers: 2, Concurrency: 8, Enqueuers: 12, Waited: 50, Pause: 4 * time.Millisecond, Payload: 1000,
	}
	for life := range kills {
		c.Life = lifeName(life)
		n := startNode(t, c, b)
		if life%5 == 3 { // in its start
			pause(rand.N(300 * time.Millisecond))
		} else {
			n.ready(t, b)
			n.loaded(t, b, rand.IntN(rounds(1000, 4000)))
			pause(rand.N(20 * time.Millisecond))
		}
		n.kill()
	}
	began := time.Now()
	until(t, "the workers of the killed nodes are gone", func() bool { return marked(t, dir) == 0 })
	gone := time.Since(began)
	b.healthy(t)
	c.Life = lifeName(kills)
	results := finish(t, c, b)
	ran := readRan(t, c.Ran)
	extra := ran.check(t, b, c)
	t.Logf("%d kills; %d jobs confirmed, %d outcomes durable before their kill, %d outcomes in the end; %d runs again, at most %d of one kill; workers gone after %v",
		kills, len(b.confirmed), len(b.ended), results, extra, ran.worst, gone.Round(time.Millisecond))
}

// marked counts the processes that have mark in their environment.
func marked(t *testing.T, mark string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && bytes.Contains(text, []byte(markVar+"="+mark+"\x00")) {
			count++
		}
	}
	return count
}

// finish starts the store once more, lets all jobs end, and compares. It returns
// how many outcomes there are.
func finish(t *testing.T, c nodeConfig, b *book) int {
	t.Helper()
	events := newEventLog()
	q := openQueue(t, queue.Config{
		Store: embedded.At(c.Dir), Lease: c.Lease, Logger: events.logger(), Retry: job.Retry{Nodes: 1000},
	})
	e, err := c.executor()
	closing(t, e, err)
	stop := startWork(t, q, e, queue.WorkConfig{Queue: workQueue, Concurrency: c.Concurrency})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bad := 0
	for id := range b.confirmed {
		r, err := q.Wait(ctx, id)
		if err == nil {
			err = intact(r.Payload)
		}
		if err != nil {
			if bad++; bad <= 10 {
				t.Errorf("confirmed job %s: %v", id, err)
			}
		}
	}
	until(t, "all jobs have left the queue", func() bool {
		s, err := q.Status(ctx)
		return err == nil && s.Jobs.Messages == 0
	})
	stop()
	if n := len(events.of(job.Missing)) + len(events.of(job.Damaged)); n > 0 {
		t.Errorf("the queue reports %d missing or damaged jobs:\n%s", n, events.tail())
	}
	return outcomes(t, q, b)
}

// outcomes walks all recorded outcomes and finds each confirmed job once.
func outcomes(t *testing.T, q *queue.Queue, b *book) int {
	t.Helper()
	seen := make(map[string]bool)
	for f := (job.Filter{States: []job.State{job.Done, job.Dead, job.Canceled}, Limit: 5000}); ; {
		page, err := q.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if seen[j.ID] {
				t.Errorf("job %s has two outcomes", j.ID)
			}
			seen[j.ID] = true
			if j.Outcome != bullpen.OK {
				t.Errorf("job %s ended %v: %v", j.ID, j.Outcome, j.Err)
			}
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	for id := range b.confirmed {
		if !seen[id] {
			t.Errorf("confirmed job %s has no outcome in the list", id)
		}
	}
	return len(seen)
}

// ran is what handlers have written.
type ran struct {
	runs  map[string][]run // by job, in their order
	worst int              // how many jobs ran again because of one kill, at most
}

type run struct {
	attempt, life int
	redelivered   bool
}

func readRan(t *testing.T, path string) *ran {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &ran{runs: make(map[string][]run)}
	for line := range strings.Lines(string(text)) {
		var id string
		var one run
		if _, err := fmt.Sscan(line, &id, &one.attempt, &one.redelivered, &one.life); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		r.runs[id] = append(r.runs[id], one)
	}
	return r
}

// check compares the runs with what was confirmed, and returns how many there
// were beyond the first.
func (r *ran) check(t *testing.T, b *book, c nodeConfig) (extra int) {
	t.Helper()
	again := make(map[int]int) // by the life in which the run before began
	for id := range b.confirmed {
		if len(r.runs[id]) == 0 {
			t.Errorf("job %s has an outcome and never ran", id)
		}
	}
	for id, runs := range r.runs {
		for i, one := range runs[1:] {
			before := runs[i]
			extra++
			again[before.life]++
			if one.life <= before.life {
				t.Errorf("job %s ran twice in life %d: %+v", id, one.life, runs)
			}
			if !one.redelivered || one.attempt <= before.attempt {
				t.Errorf("job %s does not know that it runs again: %+v", id, runs)
			}
			if ended, err := strconv.Atoi(b.ended[id]); err == nil && one.life > ended {
				t.Errorf("the outcome of job %s was durable in life %d, and it ran again: %+v", id, ended, runs)
			}
		}
	}
	for life, n := range again {
		r.worst = max(r.worst, n)
		// The node tells of a new peak within some milliseconds, or not before the
		// kill: what the executor may have more is the bound then.
		if most := b.inHand[lifeName(life)] + c.Concurrency; n > most {
			t.Errorf("%d jobs ran again after the kill in life %d, which had %d in hand at most", n, life, most)
		}
	}
	return extra
}
