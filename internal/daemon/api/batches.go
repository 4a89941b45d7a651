package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// Batch is a batch in the API's JSON.
type Batch struct {
	ID          string            `json:"id"`
	Key         string            `json:"key,omitempty"`
	State       string            `json:"state"`
	Total       int               `json:"total"`
	Ended       int               `json:"ended"`
	OK          int               `json:"ok"`
	Failed      int               `json:"failed"`
	Canceled    int               `json:"canceled"`
	Lost        int               `json:"lost,omitempty"`
	Created     string            `json:"created"`
	EndedAt     string            `json:"ended_at,omitempty"`
	FirstFailed string            `json:"first_failed,omitempty"`
	Then        *JobLine          `json:"then,omitempty"`
	FailedJob   *JobLine          `json:"failed_job,omitempty"`
	ThenID      string            `json:"then_id,omitempty"`
	FailedID    string            `json:"failed_id,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Existing    bool              `json:"existing,omitempty"`
}

// Batches is a page of a list of batches.
type Batches struct {
	Batches []Batch `json:"batches"`
	Next    string  `json:"next,omitempty"`
}

// JobLine is a job to enqueue in the API's JSON: a line of a bulk, plus the pool.
type JobLine struct {
	Pool       string            `json:"pool"`
	Task       string            `json:"task,omitempty"`
	Group      string            `json:"group,omitempty"`
	Payload    string            `json:"payload,omitempty"`
	Base64     string            `json:"payload_base64,omitempty"`
	PayloadLen int               `json:"payload_size,omitempty"` // in lists, in place of the payload
	Priority   string            `json:"priority,omitempty"`
	Delay      float64           `json:"delay,omitempty"`
	At         string            `json:"at,omitempty"`
	Deadline   string            `json:"deadline,omitempty"`
	Timeout    float64           `json:"timeout,omitempty"`
	Memory     int64             `json:"memory,omitempty"`
	CPU        float64           `json:"cpu,omitempty"`
	Output     int               `json:"output,omitempty"`
	Attempts   int               `json:"attempts,omitempty"`
	Backoff    float64           `json:"backoff,omitempty"`
	MaxBackoff float64           `json:"max_backoff,omitempty"`
	Crashes    int               `json:"crashes,omitempty"`
	Idempotent bool              `json:"idempotent,omitempty"`
	Compensate string            `json:"compensate,omitempty"`
	Bury       string            `json:"bury,omitempty"`
	Meta       map[string]string `json:"meta,omitempty"`
	Then       []JobLine         `json:"then,omitempty"`
}

// lineOfJob converts a job to the form in which it could be submitted.
func lineOfJob(j *job.Job) JobLine {
	l := JobLine{
		Pool: j.Queue, Task: j.Name, Group: j.Group, Delay: j.Delay.Seconds(), At: stamp(j.At), Deadline: stamp(j.Deadline),
		Timeout: j.Limits.Timeout.Seconds(), Memory: j.Limits.Memory, CPU: j.Limits.CPU, Output: j.Limits.Output,
		Attempts: j.Retry.Attempts, Backoff: j.Retry.Backoff.Seconds(), MaxBackoff: j.Retry.MaxBackoff.Seconds(), Crashes: j.Retry.Crashes,
		Idempotent: j.Idempotent, Compensate: j.Compensate, Bury: j.Bury, Meta: j.Meta,
	}
	if j.Priority != job.Normal {
		l.Priority = j.Priority.String()
	}
	if utf8.Valid(j.Payload) {
		l.Payload = string(j.Payload)
	} else {
		l.Base64 = base64.StdEncoding.EncodeToString(j.Payload)
	}
	for i := range j.Then {
		l.Then = append(l.Then, lineOfJob(&j.Then[i]))
	}
	return l
}

func batchOf(i *job.BatchInfo) Batch {
	b := Batch{
		ID: i.ID, Key: i.Key, State: i.State.String(), Total: i.Total, Ended: i.Ended, OK: i.OK, Failed: i.Failed, Canceled: i.Canceled, Lost: i.Lost,
		Created: stamp(i.Created), EndedAt: stamp(i.EndedAt), FirstFailed: i.FirstFailed, ThenID: i.ThenID, FailedID: i.FailedID, Meta: i.Meta,
		Existing: i.Existing,
	}
	if i.ThenJob != nil {
		l := lineOfJob(i.ThenJob)
		b.Then = &l
	}
	if i.FailedJob != nil {
		l := lineOfJob(i.FailedJob)
		b.FailedJob = &l
	}
	return b
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
		return problem.New(problem.BadRequest, "the first job names no pool: give it the field pool.")
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
	return writeJSON(w, status, batchOf(&i))
}

// completeAll completes jobs from the settings of their pools.
func (a *API) completeAll(pool string, jobs []job.Job) *problem.Problem {
	for i := range jobs {
		if jobs[i].Queue == "" && pool == "" {
			return problem.New(problem.BadRequest, "a job names no pool: give it the field pool, or one to all with the batch's field pool.")
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
		return problem.New(problem.Ended, "Batch "+id+" is "+i.State.String()+" and takes no more members.")
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
