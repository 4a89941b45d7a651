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
	// listTime bounds how long one call of a list searches for jobs, and listBytes
	// about how much it returns. Then it returns what it has found, with a cursor.
	listTime  = 120 * time.Millisecond
	listBytes = 1 << 20
	// listLeast is the minimum number of jobs that each call examines.
	listLeast = 8
	// listAsk is how many jobs are requested from the queue at a time.
	listAsk = 100
)

// lister reads pages of jobs from one or more parts of a queue, one part after the
// other.
type lister struct {
	queue  *queue.Queue
	parts  []int // the queue's parts, as indexes into parts
	filter job.Filter
	// fits reports whether a job belongs to the list. If fresh is set, each job is
	// looked up first, for values that the queue's lists leave out.
	fits  func(*job.Info) bool
	fresh bool
}

// parts are the parts of a queue that hold jobs, in the order of a list of all jobs.
var parts = [...]job.State{job.Scheduled, job.Queued, job.Done, job.Dead}

const (
	partScheduled = iota
	partQueued
	partEnded
	partDead
)

// cursor is the position in a list: "part.sequence". It is a position in the list of
// all jobs, so it is valid with every filter.
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

// orders has the order of the parts in a list of all jobs.
var orders = map[bool][]int{
	false: {partScheduled, partQueued, partEnded, partDead},
	true:  {partQueued, partScheduled, partEnded, partDead}, // newest first
}

// from returns the position to read from, in a part that l covers; nil is the
// beginning. It returns false if nothing follows.
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

// behind returns the beginning of the part after the given one.
func (l *lister) behind(part int) (cursor, bool) {
	all := orders[l.filter.Newest]
	for _, p := range all[slices.Index(all, part)+1:] {
		if slices.Contains(l.parts, p) {
			return cursor{part: p}, true
		}
	}
	return cursor{}, false
}

// page reads the page that begins at a position; next is the position of the page
// after, if there is one. Each call advances by at least one job.
func (l *lister) page(ctx context.Context, from *cursor, limit int) (jobs []*job.Info, next *cursor, err error) {
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
				size += jsonSize(info)
			}
			at.after = page.Jobs[i].After
		}
		long := looked >= listLeast || page.Next != 0 // if it is 0, the list was short
		if at.after = page.Next; at.after == 0 {
			at, more = l.behind(at.part)
		}
		if more && (len(jobs) >= limit || size >= listBytes || long && time.Now().After(end)) {
			return jobs, &at, nil
		}
	}
	return jobs, nil, nil
}

// jsonSize returns the approximate size of j as JSON, in bytes.
func jsonSize(j *job.Info) int {
	const rest = 400 // names, times and numbers
	n := rest + textSize(j.Name) + textSize(j.Key) + textSize(j.Note) + textSize(j.ErrorText()) + textSize(j.Compensate) + textSize(j.Bury) + textSize(j.Group)
	for k, v := range j.Meta {
		n += textSize(k) + textSize(v)
	}
	return n
}

// textSize returns the approximate size of a text as JSON, in bytes, including
// escapes.
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

// look returns the complete job for one in a list; nil if it no longer exists.
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
		return nil, nil // it has ended meanwhile, and is listed as ended
	}
	return info, nil
}

// partsOf returns the parts of a queue that hold jobs of a state.
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

// lister returns a lister of jobs in any state.
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

// deadLister returns a lister of dead jobs.
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

// list returns a page of jobs.
func (a *API) list(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	c := readChoice(q, &f)
	// The cursor determines the order.
	text, there := q.look("after")
	if merged := strings.HasPrefix(text, newestPrefix); merged || !there && c.filter.Newest && !c.given {
		c.filter.Newest = true
		return answerPage(w, r, q, &f, readPlaces, a.lister(c).newest)
	}
	return answerPage(w, r, q, &f, readCursor, a.lister(c).page)
}

// answerPage reads the requested limit and cursor, which read parses, and answers
// with the page.
func answerPage[P interface {
	comparable
	fmt.Stringer
}](w http.ResponseWriter, r *http.Request, q query, f *faults, read func(string) (P, error), page func(context.Context, P, int) ([]*job.Info, P, error)) *problem.Problem {
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
		answer.Jobs = []*job.Info{}
	}
	if next != end {
		answer.Next = next.String()
	}
	return writeJSON(w, http.StatusOK, answer)
}

// readLimit reads the maximum number of jobs on a page.
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

// reasons are the values of queue.Reason that a dead job may have.
var reasons = []string{
	string(job.Exhausted), string(job.Final), string(job.Quarantined), string(job.Expired),
	string(job.Refused), string(job.Corrupt),
}
