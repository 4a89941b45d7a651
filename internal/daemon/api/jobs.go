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

// look returns a job, after waiting for its end if the query asks for it.
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

// waitFor waits for the end of a job, on behalf of the task parent if one is named.
// It is no problem if the job has not ended by then.
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

// get returns a job.
func (a *API) get(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	info, p := a.look(r, q)
	if p != nil {
		return p
	}
	return writeJSON(w, http.StatusOK, whole(info))
}

// result returns the result of a job.
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

// payload returns the payload of a job.
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
	w.Write(payload) //nolint:errcheck // the client may be gone
	return nil
}

// cancel cancels a job.
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

// retry enqueues an ended job again.
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

// notDead returns the problem for a job that is not among the dead jobs.
func (a *API) notDead(ctx context.Context, id string, err error) *problem.Problem {
	if errors.Is(err, job.ErrNotFound) {
		if info, err := a.backend.Queue().Get(ctx, id); err == nil {
			text := "Job " + id + " is " + info.State.String() + ": only dead jobs are tried again."
			if info.State == job.Dead {
				text = "Job " + id + " is no longer among the dead jobs: it was retried or removed."
			}
			return onJob(problem.New(problem.NotDead, text), id)
		}
	}
	return onJob(problemOf(err), id)
}
