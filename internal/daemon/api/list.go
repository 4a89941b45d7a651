package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

const (
	defaultLimit = 100
	mostLimit    = 1000
)

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
	return answerPage(w, r, q, a.backend.Queue().List)
}

// listDead returns a page of dead jobs.
func (a *API) listDead(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	return answerPage(w, r, q, a.backend.Queue().ListDead)
}

// answerPage reads which page is wanted, and answers with it.
func answerPage(w http.ResponseWriter, r *http.Request, q query, list func(context.Context, job.Filter) (job.Page, error)) *problem.Problem {
	var f faults
	c := readChoice(q, &f)
	c.filter.Limit = readLimit(q, &f)
	if text, there := q.look("after"); there {
		c.filter.After = text
		if err := checkAfter(text); err != nil {
			f.add("after is " + quoted(text) + ": " + err.Error())
		}
	}
	if p := f.problem(); p != nil {
		return p
	}
	page, err := list(r.Context(), c.filter)
	if err != nil {
		return problemOf(err)
	}
	return writePage(w, page)
}

// writePage answers with a page of jobs, without what lists leave out.
func writePage(w http.ResponseWriter, page job.Page) *problem.Problem {
	for i := range page.Jobs {
		brief(&page.Jobs[i])
	}
	if page.Jobs == nil {
		page.Jobs = []job.Info{} // [] and not null
	}
	return writeJSON(w, http.StatusOK, &page)
}

// checkAfter checks the cursor of a list.
func checkAfter(text string) error {
	if text == "" || (&job.Filter{After: text}).Check() != nil {
		return errors.New(`give back what "next" of the page before said`)
	}
	return nil
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

// reasons are the values of job.Reason that select jobs.
var reasons = []string{
	string(job.Exhausted), string(job.Final), string(job.Quarantined), string(job.Expired),
	string(job.Refused), string(job.Corrupt), string(job.TakenBack),
}
