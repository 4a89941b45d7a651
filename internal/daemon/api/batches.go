package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// Batches is a page of a list of batches.
type Batches struct {
	Batches []job.BatchInfo `json:"batches"`
	Next    string          `json:"next,omitempty"`
}

// readJobs decodes an array of jobs, each with its pool. It counts the jobs,
// including those in "then", before it decodes them, because a decoded job takes far
// more memory than its JSON.
func (a *API) readJobs(value []byte, most int, todo string, now time.Time) ([]job.Job, error) {
	all, err := elements(value, most)
	tooMany := errors.New("there are more than " + strconv.Itoa(most) + " jobs: " + todo)
	switch {
	case errors.Is(err, errTooMany):
		return nil, tooMany
	case err != nil:
		return nil, err
	}
	jobs, n := make([]job.Job, len(all)), 0
	for i, text := range all {
		o, p := readLine(text, memberFields, a.config.MaxPayload, now)
		if p != nil {
			return nil, errors.New("job " + strconv.Itoa(i) + ": " + p.Detail)
		}
		if n += 1 + len(o.job.Then); n > most {
			return nil, tooMany
		}
		jobs[i] = o.job
	}
	return jobs, nil
}

// mostMembers is the maximum number of jobs in one body of a batch, including those
// in "then".
const mostMembers = 10_000

// mostJobs is the largest body of a request with an array of jobs, in bytes, not
// counting the room for one line of maximum size.
const mostJobs = 1 << 20

// readJobObject decodes a body that is an object with jobs in it.
func (a *API) readJobObject(r *http.Request, known []string, set func(name string, value []byte) error) *problem.Problem {
	if p := checkType(r, jsonType); p != nil {
		return p
	}
	body, p := readBody(r, int64(4*(a.config.MaxPayload/3+1)+lineRoom+mostJobs), "the API", "open a batch, add its jobs by POST /v1/batches/{id}/jobs in pieces, and seal it")
	if p != nil {
		return p
	}
	var f faults
	if len(body) > 0 {
		if err := eachMember(body, &f, known, set); err != nil {
			f.add("the body " + err.Error())
		}
	}
	return f.problem()
}

// chain enqueues the first job of a chain; the others follow it.
func (a *API) chain(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	now := time.Now()
	var jobs []job.Job
	p := a.readJobObject(r, []string{"jobs"}, func(_ string, value []byte) (err error) {
		jobs, err = a.readJobs(value, longestChain, "a chain has "+strconv.Itoa(longestChain)+" jobs at most, let the last one enqueue more", now)
		return err
	})
	switch {
	case p != nil:
		return p
	case len(jobs) == 0:
		return problem.New(problem.BadRequest, `there is no job: write {"jobs":[{"pool":…},…]}.`)
	case jobs[0].Queue == "":
		return problem.New(problem.BadRequest, "the first job names no pool: set its field pool.")
	}
	var f faults
	o := order{job: jobs[0]}
	o.readKey(r.Header, &f)
	first := o.job
	for i := range jobs[1:] {
		l := jobs[1+i]
		if len(l.Then) > 0 {
			f.add("job " + strconv.Itoa(1+i) + " has jobs in then: list all in jobs")
		}
		first.Then = append(first.Then, l)
	}
	readTrace(r.Header).put(&first)
	if p := f.problem(); p != nil {
		return p
	}
	job, err := a.complete("", first)
	if err != nil {
		return problemOf(err)
	}
	ref, err := a.backend.Queue().Enqueue(r.Context(), job)
	if err != nil {
		return a.badJobs(ref, err)
	}
	accepted(w, ref, job.Queue)
	return nil
}

// badJobs returns the problem for jobs that were not enqueued. Unless the store
// refused them, the jobs themselves are at fault.
func (a *API) badJobs(ref job.Ref, err error) *problem.Problem {
	p := a.notStored(ref, err)
	if p.Cause == problem.Internal && !errors.Is(err, job.ErrDamaged) && !errors.Is(err, context.Canceled) {
		return manyFaults(problem.BadRequest, "", err)
	}
	return p
}

var batchFields = []string{"key", "pool", "then", "failed", "meta", "jobs"}

// batchOrder is a request for a new batch.
type batchOrder struct {
	order // the batch's key and meta

	pool         string
	then, failed []job.Job // at most one job each
	jobs         []job.Job
	sealed       bool // the request has "jobs"
}

func (a *API) readBatch(r *http.Request) (*batchOrder, *problem.Problem) {
	now := time.Now()
	b := &batchOrder{}
	one := func(value []byte) ([]job.Job, error) {
		o, p := readLine(value, memberFields, a.config.MaxPayload, now)
		if p != nil {
			return nil, errors.New(p.Detail)
		}
		return []job.Job{o.job}, nil
	}
	p := a.readJobObject(r, batchFields, func(name string, value []byte) (err error) {
		switch name {
		case "key":
			return errors.Join(readFilled(value, &b.job.Key), checkText(b.job.Key, longestKey))
		case "pool":
			return errors.Join(readString(value, &b.pool), checkPool(b.pool, true))
		case "then":
			b.then, err = one(value)
		case "failed":
			b.failed, err = one(value)
		case "meta":
			return b.readMetaObject(value)
		default:
			b.sealed = true
			b.jobs, err = a.readJobs(value, mostMembers, "leave out jobs, add them by POST /v1/batches/{id}/jobs, and seal the batch", now)
		}
		return err
	})
	if p != nil {
		return nil, p
	}
	var f faults
	b.readKey(r.Header, &f)
	b.settle(now, &f)
	if p := f.problem(); p != nil {
		return nil, p
	}
	in := readTrace(r.Header)
	for _, some := range [][]job.Job{b.then, b.failed, b.jobs} {
		for i := range some {
			in.put(&some[i])
		}
		if p := a.completeAll(b.pool, some); p != nil {
			return nil, p
		}
	}
	return b, nil
}

// makeBatch opens a batch. It seals it at once if the request includes the jobs.
func (a *API) makeBatch(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	o, p := a.readBatch(r)
	if p != nil {
		return p
	}
	b := job.Batch{Key: o.job.Key, Meta: o.job.Meta}
	if len(o.then) > 0 {
		b.Then = &o.then[0]
	}
	if len(o.failed) > 0 {
		b.Failed = &o.failed[0]
	}
	var i job.BatchInfo
	var err error
	if o.sealed {
		i, err = a.backend.Queue().EnqueueBatch(r.Context(), b, o.jobs)
	} else {
		i, err = a.backend.Queue().OpenBatch(r.Context(), b)
	}
	if err != nil {
		return a.badJobs(job.Ref{}, err)
	}
	status := http.StatusCreated
	if i.Existing {
		status = http.StatusOK
	}
	w.Header()["Location"] = []string{"/v1/batches/" + i.ID}
	return writeJSON(w, status, &i)
}

// completeAll completes jobs from the settings of their pools.
func (a *API) completeAll(pool string, jobs []job.Job) *problem.Problem {
	for i := range jobs {
		if jobs[i].Queue == "" && pool == "" {
			return problem.New(problem.BadRequest, "a job names no pool: set its field pool, or the field pool of the batch.")
		}
		var err error
		if jobs[i], err = a.complete(pool, jobs[i]); err != nil {
			return problemOf(err)
		}
	}
	return nil
}

// addMembers adds jobs to a batch, one per line, as bulk does.
func (a *API) addMembers(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	id := r.PathValue("id")
	var f faults
	offset := 0
	if v, there := q.look("offset"); there {
		n, err := readCount(v, 0, job.MostMembers)
		if err != nil {
			f.add("offset is " + quoted(v) + ": " + err.Error())
		}
		offset = n
	}
	pool := readPool(q, &f)
	if p := f.problem(); p != nil {
		return p
	}
	if pool != "" {
		if _, err := a.backend.Complete(pool, job.Job{Queue: pool}); err != nil {
			return problemOf(err)
		}
	}
	i, err := a.backend.Queue().GetBatch(r.Context(), id)
	if err == nil && i.State != job.BatchOpen {
		return problem.New(problem.Ended, "Batch "+id+" is "+i.State.String()+" and accepts no more members.")
	}
	if err != nil {
		return problemOf(err)
	}
	b := &bulkRun{api: a, pool: pool, known: memberFields, keys: map[string]bool{}, numbered: true, number: offset}
	b.enqueues = func(ctx context.Context, jobs []job.Job) ([]job.Ref, error) {
		return a.backend.Queue().AddToBatch(ctx, id, b.number, jobs)
	}
	return b.serve(w, r)
}

// readPool reads the pool for jobs that name none.
func readPool(q query, f *faults) string {
	name, there := q.look("pool")
	if err := checkPool(name, there); err != nil {
		f.add(err.Error())
	}
	return name
}
