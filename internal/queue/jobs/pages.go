package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// part is a part of the store that holds jobs.
type part int

// The parts, in the order of a list of all jobs. The outcomes include those of dead jobs.
const (
	partScheduled part = iota
	partQueued
	partEnded
	partDead

	parts = uint64(partDead) + 1
)

// The bounds of a page.
const (
	// pageTime bounds how long one call searches for jobs, and pageBytes about how much it
	// returns. Then it returns what it has found, and where to go on.
	pageTime  = 120 * time.Millisecond
	pageBytes = 1 << 20
	// pageLeast is the minimum number of jobs that each call examines.
	pageLeast = 8
	// pageAsk is how many jobs are read from a part at a time.
	pageAsk = 100
)

// List implements queue.Queue.List.
func (q *Jobs) List(ctx context.Context, f job.Filter) (job.Page, error) {
	of := partsOf(f.States)
	if strings.HasPrefix(f.After, newestPrefix) || f.After == "" && f.Newest && len(of) > 1 {
		f.Newest = true // the cursor determines the order
		return q.listNewest(ctx, f, of)
	}
	return q.list(ctx, f, of)
}

// partsOf returns the parts that hold jobs in some states.
func partsOf(states []job.State) []part {
	if len(states) == 0 {
		return []part{partScheduled, partQueued, partEnded}
	}
	has := func(some ...job.State) bool {
		return slices.ContainsFunc(some, func(s job.State) bool { return slices.Contains(states, s) })
	}
	var all []part
	if has(job.Scheduled, job.Retrying) {
		all = append(all, partScheduled)
	}
	if has(job.Queued, job.Running, job.Retrying) {
		all = append(all, partQueued)
	}
	switch {
	case has(job.Done, job.Canceled):
		all = append(all, partEnded)
	case has(job.Dead):
		all = append(all, partDead)
	}
	return all
}

// cursor is the position in a list: "part.sequence". It is a position in the list of
// all jobs, so it is valid with every filter.
type cursor struct {
	part  part
	after uint64
}

func (c cursor) String() string {
	return strconv.Itoa(int(c.part)) + "." + strconv.FormatUint(c.after, 10)
}

// mostDigits is how many digits a sequence number in a cursor has at most.
const mostDigits = 18

// parseCursor returns the position that String wrote; the beginning for the empty text.
func parseCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{}, nil
	}
	of, after, _ := strings.Cut(s, ".")
	p, err := strconv.ParseUint(of, 10, 8)
	var n uint64
	if err == nil {
		n, err = strconv.ParseUint(after, 10, 63)
	}
	if err != nil || p >= parts || len(of) > 1 || len(after) > mostDigits {
		return cursor{}, fmt.Errorf("%w: %q", job.ErrAfter, s)
	}
	return cursor{part(p), n}, nil
}

// list returns the page that begins at f.After, of the parts one after the other. Each
// call advances by at least one job.
func (q *Jobs) list(ctx context.Context, f job.Filter, of []part) (job.Page, error) {
	at, err := parseCursor(f.After)
	if err != nil {
		return job.Page{}, err
	}
	p := q.newPage(f)
	order := []part{partScheduled, partQueued, partEnded, partDead}
	if f.Newest {
		order[0], order[1] = order[1], order[0]
	}
	if f.After != "" {
		order = order[slices.Index(order, at.part):]
	}
	for _, at.part = range order {
		if slices.Contains(of, at.part) {
			full, err := p.read(ctx, &at)
			if err != nil {
				return job.Page{}, err
			}
			if full {
				p.Next = at.String()
				return p.Page, nil
			}
		}
		at.after = 0
	}
	return p.Page, nil
}

// page is a page that is being read.
type page struct {
	job.Page

	jobs   *Jobs
	filter job.Filter
	limit  int
	end    time.Time
	looked int // jobs examined
	size   int // about how large Jobs is, in bytes
}

func (q *Jobs) newPage(f job.Filter) *page {
	limit := min(f.Limit, MostPage)
	if limit <= 0 {
		limit = DefaultPage
	}
	return &page{jobs: q, filter: f, limit: limit, end: time.Now().Add(pageTime)}
}

// full reports whether nothing more fits onto the page.
func (p *page) full() bool { return len(p.Jobs) >= p.limit || p.size >= pageBytes }

// late reports whether the time of the call is over and it has examined enough.
func (p *page) late() bool { return p.looked >= pageLeast && time.Now().After(p.end) }

// read reads a part from a position, and moves that to where reading ended. full reports
// that the call is to end there; otherwise the part has no more jobs.
func (p *page) read(ctx context.Context, at *cursor) (full bool, err error) {
	for {
		if p.full() || p.late() {
			return true, nil
		}
		list, next, err := p.jobs.some(ctx, p.filter, *at, min(pageAsk, p.limit-len(p.Jobs)))
		if err != nil {
			return false, err
		}
		for i := range list {
			if p.looked > 0 && p.size >= pageBytes || p.late() {
				return true, nil
			}
			if err := p.add(ctx, &list[i].Info, at.part); err != nil {
				return false, err
			}
			at.after = list[i].seq
		}
		if at.after = next; next == 0 {
			return false, nil
		}
		if len(list) == 0 && time.Now().After(p.end) {
			return true, nil
		}
	}
}

// add examines a job, and adds it if the filter selects it.
func (p *page) add(ctx context.Context, i *job.Info, of part) error {
	p.looked++
	info, err := p.jobs.lookUp(ctx, i, of)
	if err != nil || info == nil || len(p.filter.States) > 0 && of != partDead && !slices.Contains(p.filter.States, info.State) {
		return err
	}
	p.Jobs = append(p.Jobs, *info)
	p.size += sizeOf(info)
	return nil
}

// found is a job of a part, and its sequence number there.
type found struct {
	job.Info

	seq uint64
}

// some returns up to limit jobs of a part that a filter selects, from a position on, and
// the sequence number to go on after, 0 at the end.
func (q *Jobs) some(ctx context.Context, f job.Filter, at cursor, limit int) (list []found, next uint64, err error) {
	s, err := newSelection(f, at.part)
	if err != nil {
		return nil, 0, err
	}
	s.after = at.after
	next, err = q.look(ctx, s, ListTime, func(i *job.Info, seq uint64) bool {
		i.Payload, i.Result = nil, nil
		list = append(list, found{*i, seq})
		return len(list) < limit
	})
	return list, next, err
}

// lookUp returns all that is known of a job that has not ended, for one that a part says
// little of; nil if it has ended meanwhile, and is listed as ended.
func (q *Jobs) lookUp(ctx context.Context, i *job.Info, of part) (*job.Info, error) {
	if of >= partEnded || i.Reason == job.Corrupt {
		return i, nil
	}
	info, err := q.known(ctx, i, i.At)
	switch {
	case errors.Is(err, job.ErrDamaged):
		return nil, nil
	case err != nil:
		return nil, StoreError(err)
	case info.State.Ended():
		return nil, nil
	}
	return info, nil
}

// sizeOf returns about how many bytes a job has as JSON.
func sizeOf(i *job.Info) int {
	const rest = 400 // names, times and numbers
	n := rest + textSize(i.Name) + textSize(i.Key) + textSize(i.Note) + textSize(i.ErrorText()) + textSize(i.Compensate) + textSize(i.Bury) + textSize(i.Group)
	for k, v := range i.Meta {
		n += textSize(k) + textSize(v)
	}
	return n
}

// textSize returns about how many bytes a text has as JSON, with its escapes.
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
