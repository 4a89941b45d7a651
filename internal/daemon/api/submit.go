package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// errWaited is the cause with which a wait ends when the caller's time is over.
var errWaited = errors.New("the wait is over")

// surely is the shortest wait for which storing and waiting are one call. One call is
// cheaper, but both end with it: the disk must have answered by then. That call also
// does not report when the job is stored, so its payload no longer counts towards
// http.max_inflight while it is still on its way to the disk. Hence only small
// payloads qualify.
const (
	surely       = 5 * time.Second
	smallPayload = 16 << 10
)

// submit enqueues a job and, if asked, waits for its end.
func (a *API) submit(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	var faults faults
	o := readOrder(q, &faults)
	o.readHeaders(r.Header, &faults)
	o.readKey(r.Header, &faults)
	o.readPrefer(r.Header)
	o.settle(time.Now(), &faults)
	o.job.Queue = r.PathValue("pool")
	job, err := a.backend.Complete(o.job.Queue, o.job)
	if err != nil {
		return problemOf(err)
	}
	if p := faults.problem(); p != nil {
		return p
	}
	body, p := readBody(r, int64(a.config.MaxPayload), "queue.max_payload", "put the data elsewhere and its name into the payload, or raise it in bullpen.yaml")
	if p != nil {
		return p
	}
	job.Payload = body
	wait := min(o.wait, a.config.MaxWait)
	if wait <= 0 {
		ref, err := a.backend.Queue().Enqueue(r.Context(), job)
		if err != nil {
			return a.notStored(ref, err)
		}
		accepted(w, ref, job.Queue)
		return nil
	}
	done, p := a.parentWaits(o.parent)
	if p != nil {
		return p
	}
	defer done()
	return a.submitAndWait(w, r, &job, wait)
}

// parentWaits records that a task waits, until done is called.
func (a *API) parentWaits(id string) (done func(), p *problem.Problem) {
	if id == "" {
		return nobodyWaits, nil
	}
	done, err := a.backend.Waits(id)
	if err != nil {
		return nil, problemOf(err)
	}
	return done, nil
}

func nobodyWaits() {}

func (a *API) notStored(ref job.Ref, err error) *problem.Problem {
	p := problemOf(err)
	if ref.ID != "" {
		p.Job = ref.ID
	}
	return p
}

// submitAndWait stores a job and waits for its end. It takes over the job's payload:
// a request that waits must hold neither the payload nor its share of
// http.max_inflight, or waiting requests would block working ones.
func (a *API) submitAndWait(w http.ResponseWriter, r *http.Request, j *job.Job, wait time.Duration) *problem.Problem {
	ctx, cancel := context.WithTimeoutCause(r.Context(), wait, errWaited)
	waiting, p := a.startWaiting(cancel)
	if p != nil {
		return p
	}
	defer a.waits.end(waiting)
	pool := j.Queue
	var ref job.Ref
	var result bullpen.Result
	var err error
	if wait >= surely && len(j.Payload) <= smallPayload {
		access.Release(r)
		ref, result, err = a.backend.Queue().Run(ctx, taken(j))
	} else if ref, err = a.backend.Queue().Enqueue(r.Context(), taken(j)); err == nil {
		access.Release(r)
		result, err = a.backend.Queue().Wait(ctx, ref.ID)
	}
	switch {
	case err == nil:
		writeResult(w, headerJob, ref.ID, a.attemptsOf(r.Context(), &ref), &result)
		return nil
	case waitIsOver(ctx, err) && ref.ID != "":
		accepted(w, ref, pool)
		return nil
	}
	return a.notStored(ref, err)
}

// taken empties a job and returns its former content, so that the caller holds no
// reference to it.
func taken(job *job.Job) (j job.Job) {
	j, *job = *job, j
	return j
}

// attemptsOf returns the number of attempts of a job that ended well, from ref or
// from the job's record. 0 means that it is no longer known.
func (a *API) attemptsOf(ctx context.Context, ref *job.Ref) int {
	if ref.Attempts > 0 {
		return ref.Attempts
	}
	info, err := a.backend.Queue().Get(ctx, ref.ID)
	if err != nil {
		return 0
	}
	return info.Attempts
}

// waitIsOver reports whether err means that the wait ended before the job, which is
// known to be stored.
func waitIsOver(ctx context.Context, err error) bool {
	var end *job.EndError
	return ctx.Err() != nil && !errors.As(err, &end) && !errors.Is(err, job.ErrUnconfirmed)
}

// accepted answers that a job is stored but has not ended.
func accepted(w http.ResponseWriter, ref job.Ref, pool string) {
	location := "/v1/jobs/" + ref.ID
	body := make([]byte, 0, 128)
	body = append(append(append(body, `{"id":"`...), ref.ID...), `","pool":"`...)
	body = append(append(append(body, pool...), `","state":"`...), ref.State.String()...)
	body = append(body, '"')
	if ref.Existing {
		body = append(body, `,"existing":true`...)
	}
	body = append(body, "}\n"...)
	values := [...]string{location, jsonType}
	h := w.Header()
	h["Location"] = values[0:1:1]
	h["Content-Type"] = values[1:2:2]
	plainHeaders(h)
	w.WriteHeader(http.StatusAccepted)
	w.Write(body) //nolint:errcheck // the client may be gone
}
