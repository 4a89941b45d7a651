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

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/queue"
)

const (
	defaultLimit = 100
	mostLimit    = 1000
	// listTime is how long one call of a list looks for jobs that fit, listBytes about
	// how much it tells; then it gives those that it has, and a place to go on.
	listTime  = 2 * time.Second
	listBytes = 1 << 20
	// firstAsk and mostAsk are how many jobs a queue is asked for at a time, first and
	// later; askBytes how many bytes of payloads and results may come with them.
	firstAsk = 25
	mostAsk  = 100
	askBytes = 8 << 20
)

// lister reads jobs from one or more parts of a queue, one after the other, a
// page at a time.
type lister struct {
	queue  *queue.Queue
	parts  []int // of the queue, by their place in parts
	filter queue.Filter
	// fits tells whether a job belongs to the list; fresh ones are looked up
	// before, for what a list of the queue does not tell.
	fits  func(*queue.Info) bool
	fresh bool
}

// parts are where jobs are in a queue, in the order of a list of all.
var parts = [...]queue.State{queue.Scheduled, queue.Queued, queue.Done, queue.Dead}

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

func readCursor(s string) (cursor, error) {
	part, after, _ := strings.Cut(s, ".")
	p, err := strconv.ParseUint(part, 10, 8)
	var n uint64
	if err == nil {
		n, err = strconv.ParseUint(after, 10, 63)
	}
	if err != nil || int(p) >= len(parts) || len(part) > 1 || len(after) > 18 {
		return cursor{}, errors.New(`give back what "next" of the page before said`)
	}
	return cursor{int(p), n}, nil
}

// from returns where to read for a place: in a part that l has. False says that
// nothing lies behind.
func (l *lister) from(at cursor) (cursor, bool) {
	for _, p := range l.parts {
		if p == at.part {
			return at, true
		}
		if p > at.part {
			return cursor{part: p}, true
		}
	}
	return at, false
}

// page reads on from at. Where there is more, next says where.
func (l *lister) page(ctx context.Context, at cursor, limit int) (jobs []Job, next *cursor, err error) {
	end := time.Now().Add(listTime)
	ask, size := firstAsk, 0
	at, more := l.from(at)
	for first := true; more; first = false {
		f := l.filter
		f.State, f.After, f.Limit = parts[at.part], at.after, min(ask, limit-len(jobs))
		page, err := l.queue.List(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		some, err := l.choose(ctx, page.Jobs, first, end)
		switch {
		case errors.Is(err, errLate): // of what was asked for last nothing is told: the queue has places only behind what it gives
			return jobs, &at, nil
		case err != nil:
			return nil, nil, err
		}
		jobs = append(jobs, some...)
		for i := range some {
			size += jsonSize(&some[i])
		}
		ask = nextAsk(ask, page.Jobs, size, len(jobs))
		if at.after = page.Next; at.after == 0 {
			at, more = l.from(cursor{part: at.part + 1})
		}
		if more && (len(jobs) >= limit || size >= listBytes || time.Now().After(end)) {
			return jobs, &at, nil
		}
	}
	return jobs, nil, nil
}

// errLate says that the time of a call is over.
var errLate = errors.New("the time is over")

// choose gives those that fit of what a queue has told, and errLate when the time
// ends before. The first are looked at in any case, so that each call goes on.
func (l *lister) choose(ctx context.Context, infos []queue.Info, first bool, end time.Time) (some []Job, err error) {
	for i := range infos {
		if !first && time.Now().After(end) {
			return nil, errLate
		}
		info, err := l.look(ctx, &infos[i])
		if err != nil {
			return nil, err
		}
		if info != nil && l.fits(info) {
			some = append(some, brief(info))
		}
	}
	return some, nil
}

// nextAsk says how many jobs to ask for after so many were asked for and these
// came: twice as many, as far as the bounds on bytes allow for jobs like these. size
// is how much is told of told jobs.
func nextAsk(asked int, came []queue.Info, size, told int) int {
	held := 0
	for i := range came {
		held += len(came[i].Payload) + len(came[i].Result)
	}
	ask := min(2*asked, mostAsk)
	if held > 0 {
		ask = min(ask, askBytes*len(came)/held)
	}
	if told > 0 {
		ask = min(ask, 1+max(listBytes-size, 0)*told/size)
	}
	return max(ask, 1)
}

// jsonSize is about how many bytes j is as JSON.
func jsonSize(j *Job) int {
	const rest = 400 // names, times and numbers
	n := rest + textSize(j.Task) + textSize(j.Key) + textSize(j.Note) + textSize(j.Error) + textSize(j.Compensate)
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
func (l *lister) look(ctx context.Context, i *queue.Info) (*queue.Info, error) {
	if !l.fresh || i.State.Ended() || i.Reason == queue.Corrupt {
		return i, nil
	}
	info, err := l.queue.Get(ctx, i.ID)
	switch {
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrDamaged):
		return nil, nil
	case err != nil:
		return nil, err
	case info.State.Ended() && i.State != info.State:
		return nil, nil // it has ended meanwhile, and is listed there
	}
	return info, nil
}

// partsOf says in which parts of a queue jobs of a state are.
func partsOf(state queue.State) []int {
	switch state {
	case queue.Scheduled:
		return []int{partScheduled}
	case queue.Retrying:
		return []int{partScheduled, partQueued}
	case queue.Queued, queue.Running:
		return []int{partQueued}
	case queue.Dead:
		return []int{partDead}
	default:
		return []int{partEnded}
	}
}

func anyJob(*queue.Info) bool { return true }

// lister makes a lister of what a query of /v1/jobs asks.
func (a *API) lister(q query, f *faults) *lister {
	l := &lister{queue: a.backend.Queue(), fits: anyJob, fresh: true}
	l.filter.Queue, l.filter.Name = readPool(q, f), q.get("task")
	word, there := q.look("state")
	if !there {
		l.parts = []int{partScheduled, partQueued, partEnded}
		return l
	}
	state, err := queue.ParseState(word)
	if err != nil {
		f.add(err.Error())
	}
	l.parts = partsOf(state)
	l.fits = func(i *queue.Info) bool { return i.State == state }
	return l
}

// readPool takes the name of a pool, of which the queue has jobs or not.
func readPool(q query, f *faults) string {
	name, there := q.look("pool")
	f.addErr(checkPool(name, there))
	return name
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
	l := a.lister(q, &f)
	return a.answerList(w, r, q, l, &f)
}

// answerList reads a page and answers with it.
func (a *API) answerList(w http.ResponseWriter, r *http.Request, q query, l *lister, f *faults) *problem.Problem {
	limit := readLimit(q, f)
	var at cursor
	if text, there := q.look("after"); there {
		var err error
		if at, err = readCursor(text); err != nil {
			f.add("after is " + quoted(text) + ": " + err.Error())
		}
	}
	if p := f.problem(); p != nil {
		return p
	}
	jobs, next, err := l.page(r.Context(), at, limit)
	if err != nil {
		return problemOf(err)
	}
	page := Page{Jobs: jobs}
	if jobs == nil {
		page.Jobs = []Job{}
	}
	if next != nil {
		page.Next = next.String()
	}
	return writeJSON(w, http.StatusOK, page)
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

// deadLister makes a lister of what /v1/dead asks.
func (a *API) deadLister(pool, task, reason, outcome string, f *faults) *lister {
	l := &lister{queue: a.backend.Queue(), parts: []int{partDead}}
	l.filter.Queue, l.filter.Name = pool, task
	if reason != "" && !slices.Contains(reasons, reason) {
		f.add("reason is " + quoted(reason) + ": use one of " + strings.Join(reasons, ", "))
	}
	if outcome != "" {
		_, err := bullpen.ParseOutcome(outcome)
		f.addErr(err)
	}
	l.fits = func(i *queue.Info) bool {
		return (reason == "" || string(i.Reason) == reason) && (outcome == "" || i.Outcome.String() == outcome)
	}
	return l
}

// reasons are the words of queue.Reason that a dead job may have.
var reasons = []string{
	string(queue.Exhausted), string(queue.Final), string(queue.Quarantined), string(queue.Expired),
	string(queue.Refused), string(queue.Corrupt), string(queue.Vanished),
}
