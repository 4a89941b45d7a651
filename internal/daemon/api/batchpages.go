package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// getBatch returns a batch, after waiting for its end if the query asks for it.
func (a *API) getBatch(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	id := r.PathValue("id")
	var f faults
	o := readOrder(q, &f)
	o.readParent(r.Header, &f)
	if p := f.problem(); p != nil {
		return p
	}
	if o.wait > 0 {
		done, p := a.parentWaits(o.parent)
		if p != nil {
			return p
		}
		defer done()
		ctx, cancel := context.WithTimeoutCause(r.Context(), min(o.wait, a.config.MaxWait), errWaited)
		waiting, p := a.startWaiting(cancel)
		if p != nil {
			return p
		}
		defer a.waits.end(waiting)
		if _, err := a.backend.Queue().WaitBatch(ctx, id); err != nil && ctx.Err() == nil {
			return problemOf(err)
		}
	}
	i, err := a.backend.Queue().GetBatch(r.Context(), id)
	return answerBatch(w, &i, err)
}

func answerBatch(w http.ResponseWriter, i *job.BatchInfo, err error) *problem.Problem {
	if err != nil {
		return problemOf(err)
	}
	return writeJSON(w, http.StatusOK, i)
}

// listBatches returns a page of batches.
func (a *API) listBatches(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	filter := job.BatchFilter{Limit: readLimit(q, &f)}
	if v, there := q.look("state"); there {
		states, err := readWords(v, job.ParseBatchState)
		if err != nil {
			f.add("state is " + quoted(v) + ": " + err.Error())
		}
		filter.States = states
	}
	if v, there := q.look("order"); there {
		if filter.Newest = v == "newest"; !filter.Newest && v != "oldest" {
			f.add("order is " + quoted(v) + ": use newest or oldest")
		}
	}
	if v, there := q.look("after"); there {
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil {
			f.add("after is " + quoted(v) + `: give back what "next" of the page before said`)
		}
		filter.After = n
	}
	if p := f.problem(); p != nil {
		return p
	}
	page, err := a.backend.Queue().ListBatches(r.Context(), filter)
	if err != nil {
		return problemOf(err)
	}
	all := Batches{Batches: make([]job.BatchInfo, len(page.Batches))}
	for i := range page.Batches {
		all.Batches[i] = briefBatch(page.Batches[i])
	}
	if page.Next > 0 {
		all.Next = strconv.FormatUint(page.Next, 10)
	}
	return writeJSON(w, http.StatusOK, all)
}

// briefBatch returns a batch as a list has it, without the payloads of its callbacks.
func briefBatch(i job.BatchInfo) job.BatchInfo {
	for _, callback := range []**job.Job{&i.ThenJob, &i.FailedJob} {
		if *callback != nil {
			short := **callback
			short.Payload = nil
			*callback = &short
		}
	}
	return i
}

// listMembers returns a page of the members of a batch, in order.
func (a *API) listMembers(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	limit, from := readLimit(q, &f), 0
	if v, there := q.look("after"); there {
		n, err := readCount(v, 0, job.MostMembers)
		if err != nil {
			f.add("after is " + quoted(v) + `: give back what "next" of the page before said`)
		}
		from = n
	}
	if p := f.problem(); p != nil {
		return p
	}
	jobs, next, err := a.backend.Queue().BatchJobs(r.Context(), r.PathValue("id"), from, limit)
	if err != nil {
		return problemOf(err)
	}
	page := job.Page{Jobs: jobs}
	if next > 0 {
		page.Next = strconv.Itoa(next)
	}
	return writePage(w, page)
}

// sealBatch seals a batch.
func (a *API) sealBatch(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	var f faults
	total := -1
	p := readObject(r, []string{"total"}, &f, func(_ string, value []byte) error {
		return readWhole(value, 0, job.MostMembers, &total)
	})
	switch {
	case p != nil:
		return p
	case total < 0:
		return problem.New(problem.BadRequest, `total is missing: write {"total": N}, how many members the batch has.`)
	}
	i, err := a.backend.Queue().SealBatch(r.Context(), r.PathValue("id"), total)
	return answerBatch(w, &i, err)
}

// cancelBatch cancels a batch.
func (a *API) cancelBatch(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	i, err := a.backend.Queue().CancelBatch(r.Context(), r.PathValue("id"))
	return answerBatch(w, &i, err)
}
