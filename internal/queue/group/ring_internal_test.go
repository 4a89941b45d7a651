package group

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// ringed is a backlog of its own, to which jobs come as the test says.
func ringed() *Backlog {
	return newBacklog(New(&jobs.Jobs{Config: jobs.Config{Lease: time.Minute}}), "default")
}

// comes has a job of a group come.
func (b *Backlog) comes(name string) {
	g := b.group(name)
	k := &Job{ID: name, group: g, level: job.Normal, Delivery: engine.Delivery{}}
	g.lanes[job.Normal].push(k)
	g.waiting++
	b.waiting[job.Normal]++
	b.lineFresh(g, job.Normal)
}

// TestFreshGroupsFirst has jobs come now and then beside a group that has many: each
// has the next turn, and yet the others have theirs.
func TestFreshGroupsFirst(t *testing.T) {
	t.Parallel()
	b := ringed()
	for range 1000 {
		b.comes("many")
	}
	turn := func() string { return b.Next(job.Normal).group.name }
	for range 10 {
		turn()
		turn()
		b.comes("few")
		if got := turn(); got != "few" {
			t.Fatalf("the next turn is of %s, want few: it had nothing", got)
		}
	}
	// One that comes again before the others had a turn stands behind them.
	b.comes("few")
	if got := turn(); got != "many" {
		t.Errorf("the turn after that of few is of %s, want many", got)
	}
	if got := turn(); got != "few" {
		t.Errorf("then it is of %s, want few", got)
	}
	// Groups that are always others take no more than their part.
	had := map[string]int{}
	for i := range 100 {
		b.comes("other-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		had[turn()]++
	}
	if had["many"] != 20 {
		t.Errorf("of 100 turns the group with many had %d, want one in %d", had["many"], freshTurns+1)
	}
}

// TestRingKeepsCount draws what comes and goes: each job has one turn, and nothing is
// counted as able to begin in the end.
func TestRingKeepsCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := ringed()
		names := []string{"a", "b", "c", "d", "e"}
		b.set = map[string]job.GroupLimits{"a": {Concurrency: 1}, "b": {Concurrency: 2}}
		came, began := map[string]int{}, map[string]int{}
		var runs []*Job
		end := func() {
			i := r.IntN(len(runs))
			k := runs[i]
			runs[i] = runs[len(runs)-1]
			runs = runs[:len(runs)-1]
			b.Freed(k, false)
		}
		for range 300 {
			switch n := r.IntN(10); {
			case n < 4:
				name := names[r.IntN(len(names))]
				came[name]++
				b.comes(name)
			case n < 8:
				if k := b.Next(job.Normal); k != nil {
					began[k.group.name]++
					runs = append(runs, k)
				}
			case len(runs) > 0:
				end()
			case n == 9:
				b.runnable.Add(-int64(b.rings[job.Normal].dropEmpty(job.Normal)))
			}
			if b.set["a"].Concurrency < b.groupRuns("a") || b.set["b"].Concurrency < b.groupRuns("b") {
				t.Fatalf("seed %d: %d of a and %d of b run, want 1 and 2 at most", seed, b.groupRuns("a"), b.groupRuns("b"))
			}
		}
		for k := b.Next(job.Normal); k != nil || len(runs) > 0; k = b.Next(job.Normal) {
			if k != nil {
				began[k.group.name]++
				runs = append(runs, k)
			} else {
				end()
			}
		}
		for _, name := range names {
			if came[name] != began[name] {
				t.Errorf("seed %d: of %d jobs of %s %d began", seed, came[name], name, began[name])
			}
		}
		if n := b.runnable.Load(); n != 0 || len(b.groups) != 0 {
			t.Errorf("seed %d: in the end %d lanes have turns, and %d groups are known", seed, n, len(b.groups))
		}
	}
}

// groupRuns is how many jobs of a group run.
func (b *Backlog) groupRuns(name string) int {
	if g := b.groups[name]; g != nil {
		return g.running
	}
	return 0
}
