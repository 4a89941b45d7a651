package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// Groups is the answer of /v1/pools/{pool}/groups.
type Groups struct {
	// Limits apply to groups without limits of their own.
	Limits job.GroupLimits `json:"limits"`
	Groups []job.GroupInfo `json:"groups"`
	// More reports that further groups were left out.
	More bool `json:"more,omitempty"`
}

// mostGroups is the maximum number of groups in an answer.
const mostGroups = 10_000

// groups returns the groups of a pool.
func (a *API) groups(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	pool := r.PathValue("pool")
	if _, err := a.backend.Pool(r.Context(), pool); err != nil {
		return problemOf(err)
	}
	return a.answerGroups(w, r, pool)
}

func (a *API) answerGroups(w http.ResponseWriter, r *http.Request, pool string) *problem.Problem {
	q := a.backend.Queue()
	all, err := q.Groups(r.Context(), pool)
	if err != nil {
		return problemOf(err)
	}
	defaults, err := q.GroupDefaults(r.Context(), pool)
	if err != nil {
		return problemOf(err)
	}
	answer := Groups{Limits: defaults, Groups: []job.GroupInfo{}, More: len(all) > mostGroups}
	for _, g := range all[:min(len(all), mostGroups)] {
		g.Oldest = g.Oldest.UTC()
		answer.Groups = append(answer.Groups, g)
	}
	return writeJSON(w, http.StatusOK, answer)
}

// setGroup sets the limits of a group or, if the query names none, of all groups
// without limits of their own.
func (a *API) setGroup(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var l job.GroupLimits
	var f faults
	given := false
	p := readObject(r, []string{"concurrency", "rate", "burst"}, &f, func(name string, value []byte) error {
		given = true
		switch name {
		case "concurrency":
			return readWhole(value, 0, 1<<20, &l.Concurrency)
		case "burst":
			return readWhole(value, 0, 1<<20, &l.Burst)
		default:
			if err := json.Unmarshal(value, &l.Rate); err != nil {
				return errors.New("use a number of jobs a second without quotes, such as 10 or 0.5; 0 is no limit")
			}
			return nil
		}
	})
	if p == nil {
		if !given { // removing all limits must be explicit
			f.add("no limit is given: give at least one of concurrency, rate and burst, where 0 is no limit; use DELETE to reset the limits")
		}
		if err := l.Check(); err != nil {
			f.add(err.Error())
		}
		p = f.problem()
	}
	if p != nil {
		return p
	}
	return a.changeGroup(w, r, q, func(ctx context.Context, pool, group string) error {
		return a.backend.Queue().SetGroupLimits(ctx, pool, group, l)
	})
}

// resetGroup removes the limits that setGroup has set.
func (a *API) resetGroup(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	return a.changeGroup(w, r, q, a.backend.Queue().ResetGroupLimits)
}

func (a *API) changeGroup(w http.ResponseWriter, r *http.Request, q query, do func(ctx context.Context, pool, group string) error) *problem.Problem {
	pool := r.PathValue("pool")
	if _, err := a.backend.Pool(r.Context(), pool); err != nil {
		return problemOf(err)
	}
	group, named := q.look("group")
	if err := checkText(group, longestName); err != nil || named && group == "" {
		return problem.New(problem.BadRequest, "group is "+quoted(group)+": give the name of a group of 1 to 256 bytes of UTF-8, or leave it out for all groups that have no limits of their own.")
	}
	if err := do(r.Context(), pool, group); err != nil {
		return problemOf(err)
	}
	return a.answerGroups(w, r, pool)
}
