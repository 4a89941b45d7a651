package api

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// newestPrefix is the prefix of a cursor in a list of all jobs, newest first.
const newestPrefix = "n."

// places is a cursor of such a list: the position in each part. 0 is the beginning,
// and placeOver the end.
type places [partEnded + 1]uint64

// placeOver is the end of a list that goes backwards: nothing comes before sequence
// 1.
const placeOver = 1

func (p *places) String() string {
	text := []string{"n"}
	for _, at := range p {
		text = append(text, strconv.FormatUint(at, 10))
	}
	return strings.Join(text, ".")
}

func readPlaces(s string) (*places, error) {
	var p places
	all := strings.Split(strings.TrimPrefix(s, newestPrefix), ".")
	ok := len(all) == len(p)
	for i := 0; ok && i < len(p); i++ {
		var err error
		p[i], err = strconv.ParseUint(all[i], 10, 63)
		ok = err == nil && len(all[i]) <= 18
	}
	if !ok {
		return nil, errors.New(`give back what "next" of the page before said`)
	}
	return &p, nil
}

// merger merges the parts of a queue, newest job first. Ended jobs are ordered by
// when they ended, the others by when they were enqueued.
type merger struct {
	*lister

	at   places
	read [partEnded + 1][]job.Info // read and not yet returned
	next [partEnded + 1]uint64     // where the part continues after read
}

// moment returns the time by which a list of all jobs is ordered.
func moment(i *job.Info) time.Time {
	if i.State.Ended() {
		return i.Ended
	}
	return i.Enqueued
}

// fill reads more jobs in each part of which none are left. It returns false if it
// has found none so far in a part that goes on.
func (m *merger) fill(ctx context.Context, limit int) (all bool, err error) {
	all = true
	for part := range m.read {
		if len(m.read[part]) > 0 || m.at[part] == placeOver {
			continue
		}
		f := m.filter
		f.State, f.After, f.Limit = parts[part], m.at[part], min(listAsk, limit)
		page, err := m.queue.List(ctx, f)
		if err != nil {
			return false, err
		}
		m.read[part], m.next[part] = page.Jobs, page.Next
		if page.Next == 0 {
			m.next[part] = placeOver
		}
		if len(page.Jobs) == 0 {
			m.at[part] = m.next[part]
			all = all && m.at[part] == placeOver
		}
	}
	return all, nil
}

// take removes and returns the newest of the jobs read; nil for none.
func (m *merger) take() *job.Info {
	newest := -1
	for part, jobs := range m.read {
		if len(jobs) > 0 && (newest < 0 || moment(&jobs[0]).After(moment(&m.read[newest][0]))) {
			newest = part
		}
	}
	if newest < 0 {
		return nil
	}
	i := &m.read[newest][0]
	m.read[newest] = m.read[newest][1:]
	if m.at[newest] = i.After; len(m.read[newest]) == 0 {
		m.at[newest] = m.next[newest]
	}
	return i
}

// newest is page for a list of all jobs, newest first.
func (l *lister) newest(ctx context.Context, from *places, limit int) (jobs []*job.Info, next *places, err error) {
	m := &merger{lister: l}
	if from != nil {
		m.at = *from
	}
	for part := range m.at {
		if !slices.Contains(l.parts, part) {
			m.at[part] = placeOver
		}
	}
	end, looked, size := time.Now().Add(listTime), 0, 0
	for {
		all, err := m.fill(ctx, limit-len(jobs))
		if err != nil {
			return nil, nil, err
		}
		over := time.Now().After(end)
		if !all { // the next job may be in the part that has none read
			if over {
				return jobs, &m.at, nil
			}
			continue
		}
		if len(jobs) >= limit || size >= listBytes || looked >= listLeast && over {
			return jobs, m.rest(), nil
		}
		i := m.take()
		if i == nil {
			return jobs, nil, nil
		}
		info, err := l.look(ctx, i)
		if err != nil {
			return nil, nil, err
		}
		if looked++; info != nil && l.fits(info) {
			jobs = append(jobs, brief(info))
			size += jsonSize(info)
		}
	}
}

// rest returns the position to continue from; nil if nothing is left.
func (m *merger) rest() *places {
	for _, at := range m.at {
		if at != placeOver {
			return &m.at
		}
	}
	return nil
}
