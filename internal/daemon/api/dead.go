package api

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/queue"
)

// listDead tells of dead jobs, a page of them.
func (a *API) listDead(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	l := a.deadLister(readPool(q, &f), q.get("task"), q.get("reason"), q.get("outcome"), &f)
	for _, name := range []string{"reason", "outcome"} {
		if v, there := q.look(name); there && v == "" {
			f.add(name + " is empty: give a word, or leave it out")
		}
	}
	return a.answerList(w, r, q, l, &f)
}

// getDead tells of a dead job, with its evidence.
func (a *API) getDead(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	if p := notAJob(w, r, id); p != nil {
		return p
	}
	info, err := a.backend.Queue().GetDead(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	return writeJSON(w, http.StatusOK, evidence(info))
}

// removeDead forgets a dead job.
func (a *API) removeDead(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	if p := notAJob(w, r, id); p != nil {
		return p
	}
	if err := a.backend.Queue().RemoveDead(r.Context(), id); err != nil {
		return onJob(problemOf(err), id)
	}
	noContent(w)
	return nil
}

// notAJob answers who takes a call for the name of a job.
func notAJob(w http.ResponseWriter, r *http.Request, id string) *problem.Problem {
	if id != "retry" && id != "remove" {
		return nil
	}
	w.Header().Set("Allow", http.MethodPost)
	return problem.New(problem.Method, r.Method+" is not allowed here: use POST.")
}

// Many is the answer of what was done to many dead jobs.
type Many struct {
	Count  int      `json:"count"`
	Failed []NotOne `json:"failed,omitempty"`
	// More says that there were more than one call does: call again.
	More bool `json:"more,omitempty"`
}

// NotOne is a job of which it did not succeed.
type NotOne struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// manyTime bounds one call that does something to many jobs, mostNot how many
// failures it tells and still goes on.
const (
	manyTime = 10 * time.Second
	mostNot  = 100
)

func (a *API) retryAll(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	return a.many(w, r, func(ctx context.Context, id string) error {
		_, err := a.backend.Queue().RetryDead(ctx, id)
		return err
	})
}

func (a *API) removeAll(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	return a.many(w, r, func(ctx context.Context, id string) error { return a.backend.Queue().RemoveDead(ctx, id) })
}

var manyFields = []string{"pool", "task", "reason", "outcome", "limit", "all"}

// manyFilter says which dead jobs something is to be done to.
type manyFilter struct {
	pool, task, reason, outcome string
	limit                       int
	all                         bool
}

func readMany(r *http.Request) (manyFilter, *problem.Problem) {
	m := manyFilter{limit: mostLimit}
	var f faults
	p := readObject(r, manyFields, &f, func(name string, value []byte) error {
		switch name {
		case "pool":
			return errors.Join(readString(value, &m.pool), checkPool(m.pool, true))
		case "task":
			return readFilled(value, &m.task)
		case "reason":
			return readFilled(value, &m.reason)
		case "outcome":
			return readFilled(value, &m.outcome)
		case "limit":
			return readWhole(value, 1, mostLimit, &m.limit)
		default:
			return readTruth(value, &m.all)
		}
	})
	if p != nil {
		return m, p
	}
	if m.pool == "" && m.task == "" && m.reason == "" && m.outcome == "" && !m.all {
		f.add(`nothing says which dead jobs are meant: give pool, task, reason or outcome, or "all": true`)
	}
	return m, f.problem()
}

// many does something to all dead jobs that a body selects, within bounds.
func (a *API) many(w http.ResponseWriter, r *http.Request, do func(context.Context, string) error) *problem.Problem {
	m, p := readMany(r)
	if p != nil {
		return p
	}
	var f faults
	l := a.deadLister(m.pool, m.task, m.reason, m.outcome, &f)
	if p := f.problem(); p != nil {
		return p
	}
	var done Many
	end := time.Now().Add(manyTime)
	for at := (&cursor{}); at != nil; {
		jobs, next, err := l.page(r.Context(), *at, min(m.limit-done.Count, defaultLimit))
		if err != nil {
			return problemOf(err)
		}
		for i := range jobs {
			switch err := do(r.Context(), jobs[i].ID); {
			case err == nil:
				done.Count++
			case errors.Is(err, queue.ErrNotFound): // another was faster
			case errors.Is(err, queue.ErrStore), errors.Is(err, queue.ErrClosed):
				return problemOf(err)
			default:
				done.Failed = append(done.Failed, NotOne{ID: jobs[i].ID, Error: err.Error()})
			}
		}
		at = next
		if done.Count >= m.limit || len(done.Failed) >= mostNot || time.Now().After(end) {
			done.More = next != nil
			break
		}
	}
	return writeJSON(w, http.StatusOK, done)
}

// isNull tells whether a value of JSON is null.
func isNull(value []byte) bool { return string(value) == "null" }

// readWhole reads a whole number of JSON.
func readWhole(value []byte, least, most int, to *int) (err error) {
	*to, err = readCount(wholeNumber(string(value)), least, most)
	return err
}

// wholeNumber gives a number of JSON without its fraction where that is nothing:
// to JSON 8.0 and 8 are the same.
func wholeNumber(s string) string {
	const most = 1 << 53
	if v, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, ".eE") && v == math.Trunc(v) && math.Abs(v) < most {
		return strconv.FormatInt(int64(v), 10)
	}
	return s
}

func readTruth(value []byte, to *bool) (err error) {
	*to, err = readFlag(string(value))
	return err
}

func readString(value []byte, to *string) error {
	if len(value) == 0 || value[0] != '"' {
		return errors.New("use a string")
	}
	return json.Unmarshal(value, to)
}

// readFilled reads a string that must not be empty.
func readFilled(value []byte, to *string) error {
	err := readString(value, to)
	if err == nil && *to == "" {
		return errors.New("it is empty: leave it out")
	}
	return err
}
