package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// look returns a job, after waiting for its end as far as the query asks.
func (a *API) look(r *http.Request, q query) (*job.Info, *problem.Problem) {
	id := r.PathValue("id")
	var f faults
	o := readOrder(q, &f)
	o.readParent(r.Header, &f)
	if p := f.problem(); p != nil {
		return nil, p
	}
	if o.wait > 0 {
		if p := a.waitFor(r.Context(), id, o.parent, min(o.wait, a.config.MaxWait)); p != nil {
			return nil, p
		}
	}
	info, err := a.backend.Queue().Get(r.Context(), id)
	if err != nil {
		return nil, onJob(problemOf(err), id)
	}
	return info, nil
}

// waitFor waits for the end of a job, as the task parent if one is named. That it
// has not ended is no problem.
func (a *API) waitFor(ctx context.Context, id, parent string, d time.Duration) *problem.Problem {
	done, p := a.parentWaits(parent)
	if p != nil {
		return p
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, d, errWaited)
	waiting, p := a.startWaiting(cancel)
	if p != nil {
		return p
	}
	defer a.waits.end(waiting)
	_, err := a.backend.Queue().Wait(ctx, id)
	var end *job.EndError
	if err == nil || errors.As(err, &end) || waitIsOver(ctx, err) {
		return nil
	}
	return onJob(problemOf(err), id)
}

// get tells of a job.
func (a *API) get(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	info, p := a.look(r, q)
	if p != nil {
		return p
	}
	return writeJSON(w, http.StatusOK, whole(info))
}

// result gives what a job has answered.
func (a *API) result(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	info, p := a.look(r, q)
	switch {
	case p != nil:
		return p
	case !info.State.Ended():
		return writeJSON(w, http.StatusAccepted, whole(info))
	case info.Err != nil:
		return onJob(problemOf(info.Err), info.ID)
	}
	writeResult(w, headerJob, info.ID, info.Attempts, &bullpen.Result{Payload: info.Result, Stats: info.Stats})
	return nil
}

// payload gives what a job was handed in with.
func (a *API) payload(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	payload, err := a.backend.Queue().Payload(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	h := w.Header()
	h[headerJob] = []string{id}
	h["Content-Type"] = octets
	plainHeaders(h)
	w.Write(payload) //nolint:errcheck // who does not listen any more is not told
	return nil
}

// cancel takes a job back.
func (a *API) cancel(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	q := a.backend.Queue()
	if err := q.Cancel(r.Context(), id); err != nil {
		return onJob(problemOf(err), id)
	}
	info, err := q.Get(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	return writeJSON(w, http.StatusOK, whole(info))
}

// retry enqueues a job that has ended again.
func (a *API) retry(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	id := r.PathValue("id")
	q := a.backend.Queue()
	info, err := q.Get(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	ref, err := q.Retry(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	accepted(w, ref, info.Queue)
	return nil
}

// retryDead enqueues a dead job again.
func (a *API) retryDead(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	id := r.PathValue("id")
	q := a.backend.Queue()
	dead, err := q.GetDead(r.Context(), id)
	if err != nil {
		return a.notDead(r.Context(), id, err)
	}
	ref, err := q.RetryDead(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	accepted(w, ref, dead.Queue)
	return nil
}

// notDead says why a job cannot be found among the dead.
func (a *API) notDead(ctx context.Context, id string, err error) *problem.Problem {
	if errors.Is(err, job.ErrNotFound) {
		if info, err := a.backend.Queue().Get(ctx, id); err == nil {
			text := "Job " + id + " is " + info.State.String() + ": only dead jobs are tried again."
			if info.State == job.Dead {
				text = "Job " + id + " is no longer among the dead: it was tried again or removed."
			}
			return onJob(problem.New(problem.NotDead, text), id)
		}
	}
	return onJob(problemOf(err), id)
}
