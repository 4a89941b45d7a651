package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

const (
	// manyTime bounds one call that operates on many jobs; mostNot is how many
	// failures it collects before it gives up.
	manyTime = 10 * time.Second
	mostNot  = 100
	// manyAbreast is how many jobs are processed concurrently.
	manyAbreast = 16
)

// selection is the request body of an operation on many jobs.
type selection struct {
	choice

	ids   []string
	limit int
	began time.Time // when the first of this series of calls began
	all   bool
}

// next returns the cursor for the next call. It includes when the first call began:
// the cursor of the list, a point, and the moment in nanoseconds.
func (s *selection) next(after string) string {
	return after + "." + strconv.FormatInt(s.began.UnixNano(), 10)
}

// readAfter parses what next returned. Without a moment the cursor comes from a list,
// and this is the first call.
func (s *selection) readAfter(text string) error {
	const longest = 19 // digits of a moment
	after, moment, there, dots := text, "", false, 1
	if strings.HasPrefix(text, "n.") { // of a list of several parts, newest first
		dots = 3
	}
	if i := strings.LastIndexByte(text, '.'); strings.Count(text, ".") > dots {
		after, moment, there = text[:i], text[i+1:], true
	}
	s.filter.After = after
	if err := checkAfter(after); err != nil || !there {
		return err
	}
	n, err := strconv.ParseUint(moment, 10, 63)
	if err != nil || len(moment) > longest {
		return errors.New(`give back what "next" of the answer before said`)
	}
	s.began = time.Unix(0, int64(n)) // at most 63 bits
	return nil
}

// bound leaves out jobs that came after the first call began. It returns false if
// that excludes everything.
func (s *selection) bound(f *job.Filter) bool {
	if f.Before.IsZero() || f.Before.After(s.began) {
		f.Before = s.began
	}
	return f.Since.Before(f.Before)
}

// The fields of request bodies that select jobs.
var (
	manyDead   = []string{"pool", "task", "group", "schedule", "batch", "reason", "outcome", "cause", "search", "since", "before", "order", "limit", "after", "all"}
	manyCancel = []string{"ids", "pool", "task", "group", "schedule", "batch", "state", "search", "since", "before", "order", "limit", "after", "all"}
	manyRetry  = []string{"ids", "pool", "task", "group", "schedule", "batch", "state", "reason", "outcome", "cause", "search", "since", "before", "order", "limit", "after", "all"}
)

// readSelection decodes a request body.
func readSelection(r *http.Request, known []string) (*selection, *problem.Problem) {
	s := &selection{limit: mostLimit, began: time.Now()}
	var f faults
	fields := 0
	if p := readObject(r, known, &f, func(name string, value []byte) error {
		fields++
		return s.set(name, value)
	}); p != nil {
		return nil, p
	}
	s.check(&f)
	nothing := s.filter.All() && !s.all
	switch {
	case s.ids != nil && fields > 1:
		f.add("ids and other fields are both set: use ids alone, or a selection")
	case s.ids == nil && nothing && slices.Contains(known, "reason"):
		f.add(`nothing says which dead jobs are meant: give pool, task, group, schedule, batch, reason, outcome, cause, search, since or before, or "all": true`)
	case s.ids == nil && nothing:
		f.add(`nothing says which jobs are meant: give ids, pool, task, group, schedule, batch, state, search, since or before, or "all": true`)
	}
	return s, f.problem()
}

func (s *selection) set(name string, value []byte) (err error) {
	switch name {
	case "ids":
		return s.readIDs(value)
	case "limit":
		return readWhole(value, 1, mostLimit, &s.limit)
	case "all":
		return readTruth(value, &s.all)
	}
	var text string
	if err := readFilled(value, &text); err != nil {
		return err
	}
	if name != "after" {
		return choosingOf(name).set(&s.choice, text)
	}
	return s.readAfter(text)
}

func (s *selection) readIDs(value []byte) error {
	if len(value) == 0 || value[0] != '[' {
		return errors.New("use a list of ids")
	}
	if err := json.Unmarshal(value, &s.ids); err != nil || len(s.ids) == 0 || len(s.ids) > mostLimit || slices.Contains(s.ids, "") {
		return errors.New("use a list of 1 to 1000 ids")
	}
	return nil
}

// retryAll enqueues dead jobs again.
func (a *API) retryAll(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	s, p := readSelection(r, manyDead)
	if p != nil {
		return p
	}
	return a.answerDead(w, r, s, a.backend.Queue().RetryDeadAll)
}

// removeAll deletes dead jobs.
func (a *API) removeAll(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	s, p := readSelection(r, manyDead)
	if p != nil {
		return p
	}
	return a.answerDead(w, r, s, a.backend.Queue().RemoveDeadAll)
}

// retryMany enqueues jobs again: by their ids or, for dead jobs and administrators,
// by a selection as in retryAll.
func (a *API) retryMany(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	s, p := readSelection(r, manyRetry)
	if p != nil {
		return p
	}
	q := a.backend.Queue()
	if s.ids != nil {
		return a.answerIDs(w, r, s.ids, func(ctx context.Context, id string) error {
			_, err := q.Retry(ctx, id)
			return err
		})
	}
	if role := access.RoleOf(r.Context()); role < access.Admin && role != access.None { // None: roles are not in use
		return problem.New(problem.Forbidden, "retrying what a filter selects needs the role admin, and the caller has "+role.String()+": give the jobs by ids, or use another token")
	}
	if i := slices.IndexFunc(s.filter.States, func(s job.State) bool { return s != job.Dead }); i >= 0 {
		return problem.New(problem.BadRequest, "state is "+quoted(s.filter.States[i].String())+": only dead jobs are tried again, so use dead, or leave it out")
	}
	return a.answerDead(w, r, s, q.RetryDeadAll)
}

// answerDead applies do to the selected dead jobs.
func (a *API) answerDead(w http.ResponseWriter, r *http.Request, s *selection, do func(context.Context, job.Filter, int) (job.Bulk, error)) *problem.Problem {
	if s.filter.After != "" && !s.bound(&s.filter) { // the first call itself leaves out jobs that die after it began
		return writeJSON(w, http.StatusOK, job.Bulk{})
	}
	done, err := do(r.Context(), s.filter, s.limit)
	if err != nil {
		return problemOf(err)
	}
	if done.More {
		done.Next = s.next(done.Next)
	}
	return writeJSON(w, http.StatusOK, &done)
}

// answerIDs applies do to the jobs that a body names, and reports each failure.
func (a *API) answerIDs(w http.ResponseWriter, r *http.Request, ids []string, do func(context.Context, string) error) *problem.Problem {
	var done job.Bulk
	if err := doEach(r.Context(), &done, ids, do, func(error) bool { return false }); err != nil {
		return problemOf(err)
	}
	return writeJSON(w, http.StatusOK, &done)
}

// cancelMany cancels jobs that have not ended, by their ids or by a selection.
func (a *API) cancelMany(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	s, p := readSelection(r, manyCancel)
	if p != nil {
		return p
	}
	cancel := a.backend.Queue().Cancel
	if s.ids != nil {
		return a.answerIDs(w, r, s.ids, cancel)
	}
	if s.filter.States == nil {
		s.filter.States = []job.State{job.Scheduled, job.Queued, job.Running, job.Retrying}
	}
	if i := slices.IndexFunc(s.filter.States, job.State.Ended); i >= 0 {
		return problem.New(problem.BadRequest, "state is "+quoted(s.filter.States[i].String())+": use those of jobs that have not ended: scheduled, queued, running and retrying")
	}
	if !s.bound(&s.filter) {
		return writeJSON(w, http.StatusOK, job.Bulk{})
	}
	return a.cancelListed(w, r, s)
}

// cancelListed cancels the selected jobs, within the bounds of one call.
func (a *API) cancelListed(w http.ResponseWriter, r *http.Request, s *selection) *problem.Problem {
	var done job.Bulk
	for end := time.Now().Add(manyTime); ; {
		s.filter.Limit = min(s.limit-done.Count, defaultLimit)
		page, err := a.backend.Queue().List(r.Context(), s.filter)
		if err != nil {
			return problemOf(err)
		}
		ids := make([]string, len(page.Jobs))
		for i := range page.Jobs {
			ids[i] = page.Jobs[i].ID
		}
		if err := doEach(r.Context(), &done, ids, a.backend.Queue().Cancel, func(err error) bool {
			return errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrEnded) // it has ended meanwhile
		}); err != nil {
			return problemOf(err)
		}
		s.filter.After = page.Next
		if page.Next == "" {
			return writeJSON(w, http.StatusOK, &done)
		}
		if done.Count >= s.limit || len(done.Failed) >= mostNot || time.Now().After(end) {
			done.More, done.Next = true, s.next(page.Next)
			return writeJSON(w, http.StatusOK, &done)
		}
	}
}

// doEach calls do for each job, several at a time, and counts in done. Errors for which
// passes is true do not count as failures. It returns only errors of the store.
func doEach(ctx context.Context, done *job.Bulk, ids []string, do func(context.Context, string) error, passes func(error) bool) error {
	errs := make([]error, len(ids))
	next := make(chan int, len(ids))
	for i := range ids {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(manyAbreast, len(ids)) {
		all.Go(func() { // ends with its calls, which end with ctx; do waits
			for i := range next {
				errs[i] = do(ctx, ids[i])
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			done.Count++
		case errors.Is(err, job.ErrStore), errors.Is(err, job.ErrClosed):
			return err
		case !passes(err):
			done.Failed = append(done.Failed, job.Failure{ID: ids[i], Err: err})
		}
	}
	return nil
}
