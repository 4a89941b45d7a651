package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

const (
	defaultLimit = 100
	mostLimit    = 1000
	// listTime is how long one call of a list looks for jobs that fit, listBytes about
	// how much it tells; then it gives those that it has, and a place to go on.
	listTime  = 120 * time.Millisecond
	listBytes = 1 << 20
	// listLeast is how many jobs are looked at in any case.
	listLeast = 8
	// listAsk is how many jobs a queue is asked for at a time.
	listAsk = 100
)

// lister reads jobs from one or more parts of a queue, one after the other, a
// page at a time.
type lister struct {
	queue  *queue.Queue
	parts  []int // of the queue, by their place in parts
	filter job.Filter
	// fits reports whether a job belongs to the list; fresh ones are looked up
	// before, for what a list of the queue does not tell.
	fits  func(*job.Info) bool
	fresh bool
}

// parts are where jobs are in a queue, in the order of a list of all.
var parts = [...]job.State{job.Scheduled, job.Queued, job.Done, job.Dead}

const (
	partScheduled = iota
	partQueued
	partEnded
	partDead
)

// cursor is where a list goes on: "part.sequence". It is a place in the list of
// all jobs, and so means something for every filter.
type cursor struct {
	part  int
	after uint64
}

func (c cursor) String() string {
	return strconv.Itoa(c.part) + "." + strconv.FormatUint(c.after, 10)
}

func readCursor(s string) (*cursor, error) {
	part, after, _ := strings.Cut(s, ".")
	p, err := strconv.ParseUint(part, 10, 8)
	var n uint64
	if err == nil {
		n, err = strconv.ParseUint(after, 10, 63)
	}
	if err != nil || int(p) >= len(parts) || len(part) > 1 || len(after) > 18 {
		return nil, errors.New(`give back what "next" of the page before said`)
	}
	return &cursor{int(p), n}, nil
}

// orders are the orders of the parts in a list of all.
var orders = map[bool][]int{
	false: {partScheduled, partQueued, partEnded, partDead},
	true:  {partQueued, partScheduled, partEnded, partDead}, // the newest first
}

// from returns where to read for a place: in a part that l has. False says that
// nothing lies behind. No place is the beginning.
func (l *lister) from(at *cursor) (cursor, bool) {
	behind := at == nil
	for _, p := range orders[l.filter.Newest] {
		switch has := slices.Contains(l.parts, p); {
		case behind && has:
			return cursor{part: p}, true
		case behind || p != at.part:
		case has:
			return *at, true
		default:
			behind = true
		}
	}
	return cursor{}, false
}

// behind returns the beginning of the part after one.
func (l *lister) behind(part int) (cursor, bool) {
	all := orders[l.filter.Newest]
	for _, p := range all[slices.Index(all, part)+1:] {
		if slices.Contains(l.parts, p) {
			return cursor{part: p}, true
		}
	}
	return cursor{}, false
}

// page reads on from a place. Where there is more, next says where. Each call gets on
// by one job at least.
func (l *lister) page(ctx context.Context, from *cursor, limit int) (jobs []Job, next *cursor, err error) {
	end, looked, size := time.Now().Add(listTime), 0, 0
	at, more := l.from(from)
	for more {
		f := l.filter
		f.State, f.After, f.Limit = parts[at.part], at.after, min(listAsk, limit-len(jobs))
		page, err := l.queue.List(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		for i := range page.Jobs {
			if looked > 0 && size >= listBytes || looked >= listLeast && time.Now().After(end) {
				return jobs, &at, nil
			}
			info, err := l.look(ctx, &page.Jobs[i])
			if err != nil {
				return nil, nil, err
			}
			if looked++; info != nil && l.fits(info) {
				jobs = append(jobs, brief(info))
				size += jsonSize(&jobs[len(jobs)-1])
			}
			at.after = page.Jobs[i].After
		}
		long := looked >= listLeast || page.Next != 0 // where it is 0, it was a short list
		if at.after = page.Next; at.after == 0 {
			at, more = l.behind(at.part)
		}
		if more && (len(jobs) >= limit || size >= listBytes || long && time.Now().After(end)) {
			return jobs, &at, nil
		}
	}
	return jobs, nil, nil
}

// jsonSize is about how many bytes j is as JSON.
func jsonSize(j *Job) int {
	const rest = 400 // names, times and numbers
	n := rest + textSize(j.Task) + textSize(j.Key) + textSize(j.Note) + textSize(j.Error) + textSize(j.Compensate) + textSize(j.Bury) + textSize(j.Group)
	for k, v := range j.Meta {
		n += textSize(k) + textSize(v)
	}
	return n
}

// textSize is about how many bytes a text is as JSON, where characters that may not
// stand there take more.
func textSize(s string) int {
	n := len(s) + len(`"",`)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			n += len(`\u0000`) - 1
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}

// look gives what there is to know of a job of a list, nil when it is gone.
func (l *lister) look(ctx context.Context, i *job.Info) (*job.Info, error) {
	if !l.fresh || i.State.Ended() || i.Reason == job.Corrupt {
		return i, nil
	}
	info, err := l.queue.Get(ctx, i.ID)
	switch {
	case errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrDamaged):
		return nil, nil
	case err != nil:
		return nil, err
	case info.State.Ended() && i.State != info.State:
		return nil, nil // it has ended meanwhile, and is listed there
	}
	return info, nil
}

// partsOf says in which parts of a queue jobs of a state are.
func partsOf(state job.State) []int {
	switch state {
	case job.Scheduled:
		return []int{partScheduled}
	case job.Retrying:
		return []int{partScheduled, partQueued}
	case job.Queued, job.Running:
		return []int{partQueued}
	case job.Dead:
		return []int{partDead}
	default:
		return []int{partEnded}
	}
}

func anyJob(*job.Info) bool { return true }

// lister makes a lister of jobs in any state.
func (a *API) lister(c choice) *lister {
	l := &lister{queue: a.backend.Queue(), filter: c.filter, fits: anyJob, fresh: true}
	if !c.given {
		l.parts = []int{partScheduled, partQueued, partEnded}
		return l
	}
	l.parts = partsOf(c.state)
	l.fits = func(i *job.Info) bool { return i.State == c.state }
	return l
}

// deadLister makes a lister of dead jobs.
func (a *API) deadLister(c choice) *lister {
	return &lister{queue: a.backend.Queue(), filter: c.filter, parts: []int{partDead}, fits: anyJob}
}

func checkPool(name string, there bool) error {
	const longest = 64
	bad := there && (name == "" || len(name) > longest)
	for i := 0; i < len(name) && !bad; i++ {
		c := name[i]
		bad = (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}
	if bad {
		return fmt.Errorf("pool is %s: use 1 to %d lower-case letters, digits, - and _", quoted(name), longest)
	}
	return nil
}

// list tells of jobs, a page of them.
func (a *API) list(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	c := readChoice(q, &f)
	// A place says of which order it is.
	text, there := q.look("after")
	if merged := strings.HasPrefix(text, newestPrefix); merged || !there && c.filter.Newest && !c.given {
		c.filter.Newest = true
		return answerPage(w, r, q, &f, readPlaces, a.lister(c).newest)
	}
	return answerPage(w, r, q, &f, readCursor, a.lister(c).page)
}

// answerPage reads which page of jobs is asked for, from a place that read makes of its
// text, and answers with it.
func answerPage[P interface {
	comparable
	fmt.Stringer
}](w http.ResponseWriter, r *http.Request, q query, f *faults, read func(string) (P, error), page func(context.Context, P, int) ([]Job, P, error)) *problem.Problem {
	limit := readLimit(q, f)
	var at, end P
	if text, there := q.look("after"); there {
		var err error
		if at, err = read(text); err != nil {
			f.add("after is " + quoted(text) + ": " + err.Error())
		}
	}
	if p := f.problem(); p != nil {
		return p
	}
	jobs, next, err := page(r.Context(), at, limit)
	if err != nil {
		return problemOf(err)
	}
	answer := Page{Jobs: jobs}
	if jobs == nil {
		answer.Jobs = []Job{}
	}
	if next != end {
		answer.Next = next.String()
	}
	return writeJSON(w, http.StatusOK, answer)
}

// readLimit reads how many a page has at most.
func readLimit(q query, f *faults) int {
	text, there := q.look("limit")
	if !there {
		return defaultLimit
	}
	n, err := readCount(text, 1, mostLimit)
	if err != nil {
		f.add("limit is " + quoted(text) + ": " + err.Error())
	}
	return n
}

// reasons are the words of queue.Reason that a dead job may have.
var reasons = []string{
	string(job.Exhausted), string(job.Final), string(job.Quarantined), string(job.Expired),
	string(job.Refused), string(job.Corrupt),
}
