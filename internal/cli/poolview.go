package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/client"
)

// depth has the sums over all priorities of a pool's queue.
type depth struct {
	waiting, taken int
	oldest         time.Time
}

func depthOf(p *client.Pool) depth {
	var d depth
	for _, j := range p.Jobs {
		d.waiting += j.Waiting
		d.taken += j.Taken
		if !j.Oldest.IsZero() && (d.oldest.IsZero() || j.Oldest.Before(d.oldest)) {
			d.oldest = j.Oldest
		}
	}
	return d
}

// badOnes returns the number of tasks that did not end well.
func badOnes(p *client.Pool) uint64 {
	var n uint64
	for word, count := range p.Outcomes {
		if word != "ok" && word != "canceled" {
			n += count
		}
	}
	return n
}

func deaths(p *client.Pool) uint64 {
	var n uint64
	for _, count := range p.Deaths {
		n += count
	}
	return n
}

// poolState returns the state of a pool in one word.
func poolState(p *client.Pool) cell {
	switch {
	case p.Error != "" && p.Workers.Busy+p.Workers.Idle == 0:
		return cell{"failing", toneBad}
	case p.Paused:
		return cell{"paused", toneWarn}
	case p.State == "open":
		return cell{p.State, toneGood}
	case p.State == "queue-only":
		return cell{p.State, toneFaint}
	}
	return cell{p.State, toneWarn}
}

// workersText returns how many workers are busy, running and allowed.
func workersText(p *client.Pool) string {
	if p.State == "queue-only" {
		return ""
	}
	w := p.Workers
	return fmt.Sprintf("%d/%d/%d", w.Busy, w.Busy+w.Idle+w.Starting+w.Leaving, p.Max+p.Helpers)
}

// endingsOf returns how many tasks of a pool ended well and badly, and how many
// workers died; empty for a pool without workers at this daemon.
func endingsOf(p *client.Pool) (ok, bad, died cell) {
	if p.State == "queue-only" {
		return
	}
	return cell{text: countText(p.Outcomes["ok"])}, alarming(countText(badOnes(p)), badOnes(p) > 0), alarming(countText(deaths(p)), deaths(p) > 0)
}

// alarming returns a figure, in red if bad is set.
func alarming(text string, bad bool) cell {
	if bad {
		return cell{text, toneBad}
	}
	return cell{text: text}
}

// troubleText returns why workers do not start, or why the last start failed.
func troubleText(p *client.Pool) cell {
	switch {
	case p.Error == "":
		return cell{}
	case p.Workers.Busy+p.Workers.Idle == 0:
		return cell{p.Error, toneBad}
	}
	return cell{"the last start failed: " + p.Error, toneWarn}
}

func poolTable(pools []client.Pool, now time.Time) *table {
	t := newTable("POOL", "STATE", ">BUSY/UP/MAX", ">WAITING", ">RUNNING", ">OLDEST", ">OK", ">BAD", ">DEATHS", "PROGRAM", "NOTE")
	for i := range pools {
		p := &pools[i]
		d := depthOf(p)
		ok, bad, died := endingsOf(p)
		t.addCells(
			cell{text: p.Name}, poolState(p), cell{text: workersText(p)}, cell{text: countText(d.waiting)}, cell{text: countText(d.taken)},
			cell{text: sinceText(d.oldest, now)}, ok, bad, died, cell{text: p.Program}, troubleText(p),
		)
	}
	return t
}

// poolText returns all information about a pool, for display.
func poolText(pool *client.Pool, now time.Time, s style) string {
	var p pairs
	p.add("pool", pool.Name)
	state := poolState(pool)
	p.addTone("state", state.text, state.tone)
	trouble := troubleText(pool)
	p.addTone("error", trouble.text, trouble.tone)
	p.add("program", pool.Program)
	p.add("protocol", pool.Protocol)
	p.add("task", pool.Task)
	if pool.Ephemeral {
		p.add("ephemeral", "yes")
	}
	if pool.State != "queue-only" {
		w := pool.Workers
		p.add("workers", fmt.Sprintf("%d busy, %d idle, %d starting, %d leaving; from %d to %d", w.Busy, w.Idle, w.Starting, w.Leaving, pool.Min, pool.Max))
		p.add("helpers", moreThan(pool.Helpers))
	}
	p.add("ephemeral tasks", phrase(count(pool.Queued, "waiting"), count(pool.Blocked, "callers waiting for room")))
	p.add("jobs in hand", moreThan(pool.InHand))
	p.add("ended", counts(pool.Outcomes))
	p.add("never started", moreThan(pool.NeverStarted))
	p.add("refused", moreThan(pool.Refused))
	p.add("worker starts", phrase(count(pool.Started, "started"), count(pool.Stopped, "stopped"), count(pool.FailedStarts, "failed")))
	p.add("worker deaths", counts(pool.Deaths))
	p.add("wait time", quantiles(pool.WaitP50, pool.WaitP99))
	p.add("run time", quantiles(pool.RunP50, pool.RunP99))
	if pool.StartP50 > 0 {
		p.add("start time", ageText(pool.StartP50)+" p50")
	}
	var b strings.Builder
	b.WriteString(p.draw(s))
	if d := depthOf(pool); d.waiting+d.taken > 0 {
		t := newTable("PRIORITY", ">WAITING", ">RUNNING", ">OLDEST")
		for _, j := range pool.Jobs {
			if j.Waiting+j.Taken > 0 {
				t.add(j.Priority.String(), fmt.Sprint(j.Waiting), fmt.Sprint(j.Taken), sinceText(j.Oldest, now))
			}
		}
		b.WriteString("\njobs of the queue\n" + t.draw(s))
	}
	return b.String()
}

func count[T int | uint64](n T, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// phrase joins the parts that are not empty.
func phrase(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// counts formats counts by word, the most frequent first.
func counts(of map[string]uint64) string {
	words := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			if of[a] > of[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = count(of[w], w)
	}
	return phrase(parts...)
}

func quantiles(p50, p99 time.Duration) string {
	if p99 <= 0 {
		return ""
	}
	return ageText(p50) + " p50, " + ageText(p99) + " p99"
}
