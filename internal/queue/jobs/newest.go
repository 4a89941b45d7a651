package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// newestPrefix is the prefix of a cursor in a list of several parts, newest first.
const newestPrefix = "n."

// positions is a cursor of such a list: the sequence number in each part. 0 is the
// beginning, and over the end.
type positions [partEnded + 1]uint64

// over is the end of a list that goes backwards: nothing comes before sequence 1.
const over = 1

func (p *positions) String() string {
	text := []string{"n"}
	for _, at := range p {
		text = append(text, strconv.FormatUint(at, 10))
	}
	return strings.Join(text, ".")
}

// parsePositions returns what String wrote; the beginning for the empty text.
func parsePositions(s string) (p positions, err error) {
	if s == "" {
		return p, nil
	}
	all := strings.Split(strings.TrimPrefix(s, newestPrefix), ".")
	ok := len(all) == len(p)
	for i := 0; ok && i < len(p); i++ {
		p[i], err = strconv.ParseUint(all[i], 10, 63)
		ok = err == nil && len(all[i]) <= mostDigits
	}
	if !ok {
		return p, fmt.Errorf("%w: %q", job.ErrAfter, s)
	}
	return p, nil
}

// merger merges the parts of a queue, newest job first. Ended jobs are ordered by when
// they ended, the others by when they were enqueued.
type merger struct {
	*page

	at   positions
	list [partEnded + 1][]found // read and not yet returned
	next [partEnded + 1]uint64  // where the part continues after list
}

// moment returns the time by which a list of all jobs is ordered.
func moment(i *job.Info) time.Time {
	if i.State.Ended() {
		return i.Ended
	}
	return i.Enqueued
}

// fill reads more jobs in each part of which none are left. It returns false if it has
// found none so far in a part that goes on.
func (m *merger) fill(ctx context.Context) (all bool, err error) {
	all = true
	for of := range m.list {
		if len(m.list[of]) > 0 || m.at[of] == over {
			continue
		}
		list, next, err := m.jobs.some(ctx, m.filter, cursor{part(of), m.at[of]}, min(pageAsk, m.limit-len(m.Jobs)))
		if err != nil {
			return false, err
		}
		if next == 0 {
			next = over
		}
		m.list[of], m.next[of] = list, next
		if len(list) == 0 {
			m.at[of] = next
			all = all && next == over
		}
	}
	return all, nil
}

// take removes and returns the newest of the jobs read, and its part; nil for none.
func (m *merger) take() (*job.Info, part) {
	newest := -1
	for of, list := range m.list {
		if len(list) > 0 && (newest < 0 || moment(&list[0].Info).After(moment(&m.list[newest][0].Info))) {
			newest = of
		}
	}
	if newest < 0 {
		return nil, 0
	}
	i := &m.list[newest][0]
	m.list[newest] = m.list[newest][1:]
	if m.at[newest] = i.seq; len(m.list[newest]) == 0 {
		m.at[newest] = m.next[newest]
	}
	return &i.Info, part(newest)
}

// listNewest is list for the newest jobs first, whatever part they are in. Among others,
// dead jobs are found from their outcomes.
func (q *Jobs) listNewest(ctx context.Context, f job.Filter, of []part) (job.Page, error) {
	at, err := parsePositions(f.After)
	if err != nil {
		return job.Page{}, err
	}
	for i := range at {
		if !slices.Contains(of, part(i)) && (part(i) != partEnded || !slices.Contains(of, partDead)) {
			at[i] = over
		}
	}
	m := &merger{page: q.newPage(f), at: at}
	for {
		all, err := m.fill(ctx)
		if err != nil {
			return job.Page{}, err
		}
		if !all { // the next job may be in the part that has none read
			if time.Now().After(m.end) {
				m.Next = m.at.String()
				return m.Page, nil
			}
			continue
		}
		if m.full() || m.late() {
			if m.at != (positions{over, over, over}) {
				m.Next = m.at.String()
			}
			return m.Page, nil
		}
		i, of := m.take()
		if i == nil {
			return m.Page, nil
		}
		if err := m.add(ctx, i, of); err != nil {
			return job.Page{}, err
		}
	}
}
