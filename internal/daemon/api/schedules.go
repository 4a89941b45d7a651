package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	config "github.com/bullpen-run/bullpen/internal/daemon/settings" // this package has a table named settings
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// ErrManaged means that the schedule can only be changed in the configuration.
var ErrManaged = errors.New("the schedule is from the configuration")

func (a *API) scheduleRoutes() []route {
	const read, submit, admin = access.Read, access.Submit, access.Admin
	return []route{
		a.on("GET", "/v1/schedules", read, (*API).schedules),
		a.on("GET", "/v1/schedules/{name}", read, (*API).schedule),
		a.on("PUT", "/v1/schedules/{name}", admin, (*API).putSchedule),
		a.on("DELETE", "/v1/schedules/{name}", admin, (*API).removeSchedule),
		a.on("POST", "/v1/schedules/{name}/pause", admin, (*API).pauseSchedule),
		a.on("POST", "/v1/schedules/{name}/resume", admin, (*API).resumeSchedule),
		a.on("POST", "/v1/schedules/{name}/run", submit, (*API).runSchedule),
	}
}

// Schedules is the answer of /v1/schedules.
type Schedules struct {
	Schedules []job.ScheduleInfo `json:"schedules"`
}

func (a *API) schedules(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	infos, err := a.backend.Queue().ListSchedules(r.Context())
	if err != nil {
		return problemOf(err)
	}
	for i := range infos {
		infos[i].Upcoming, infos[i].Job.Payload = nil, nil
	}
	return writeJSON(w, http.StatusOK, Schedules{append([]job.ScheduleInfo{}, infos...)})
}

func (a *API) schedule(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	info, err := a.backend.Queue().GetSchedule(r.Context(), r.PathValue("name"))
	return answerSchedule(w, &info, err)
}

func answerSchedule(w http.ResponseWriter, info *job.ScheduleInfo, err error) *problem.Problem {
	if err != nil {
		return problemOf(err)
	}
	return writeJSON(w, http.StatusOK, info)
}

// putSchedule creates or replaces a schedule.
func (a *API) putSchedule(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	s, p := a.readSchedule(r)
	if p != nil {
		return p
	}
	q, name := a.backend.Queue(), r.PathValue("name")
	s.Name = name
	var err error
	if s.Job, err = a.backend.Complete(s.Job.Queue, s.Job); err != nil {
		return problemOf(err)
	}
	if err := (queue.Config{MaxPayload: a.config.MaxPayload}).CheckSchedule(&s); err != nil {
		return manyFaults(problem.BadRequest, "", err)
	}
	if err := a.managed(r, name); err != nil {
		return problemOf(err)
	}
	info, err := q.PutSchedule(r.Context(), s)
	return answerSchedule(w, &info, err)
}

// managed returns ErrManaged if the schedule is one of the configuration.
func (a *API) managed(r *http.Request, name string) error {
	info, err := a.backend.Queue().GetSchedule(r.Context(), name)
	if err == nil && info.Origin == config.OriginConfig {
		return fmt.Errorf("%w: %q", ErrManaged, name)
	}
	if err != nil && !errors.Is(err, job.ErrNoSchedule) && !errors.Is(err, job.ErrDamaged) {
		return err
	}
	return nil
}

func (a *API) removeSchedule(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	name := r.PathValue("name")
	err := a.managed(r, name)
	if err == nil {
		err = a.backend.Queue().RemoveSchedule(r.Context(), name)
	}
	if err != nil {
		return problemOf(err)
	}
	noContent(w)
	return nil
}

func (a *API) pauseSchedule(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	info, err := a.backend.Queue().PauseSchedule(r.Context(), r.PathValue("name"), true)
	return answerSchedule(w, &info, err)
}

func (a *API) resumeSchedule(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	info, err := a.backend.Queue().PauseSchedule(r.Context(), r.PathValue("name"), false)
	return answerSchedule(w, &info, err)
}

// runSchedule enqueues a job of a schedule now.
func (a *API) runSchedule(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	info, err := a.backend.Queue().GetSchedule(r.Context(), r.PathValue("name"))
	if err != nil {
		return problemOf(err)
	}
	ref, err := a.backend.Queue().FireSchedule(r.Context(), info.Name)
	if err != nil {
		return a.notStored(ref, err)
	}
	accepted(w, ref, info.Job.Queue)
	return nil
}

var scheduleFields = []string{"pool", "cron", "every", "zone", "missed", "overlap", "paused", "job"}

// readSchedule decodes a schedule from a request body.
func (a *API) readSchedule(r *http.Request) (job.Schedule, *problem.Problem) {
	var s job.Schedule
	if p := checkType(r, jsonType); p != nil {
		return s, p
	}
	most := int64(4*(a.config.MaxPayload/3+1) + lineRoom)
	body, p := readBody(r, most, "queue.max_payload", "put the payload elsewhere and its name into the job")
	if p != nil {
		return s, p
	}
	var f faults
	var pool string
	var job order
	err := eachMember(body, &f, scheduleFields, func(name string, value []byte) (err error) {
		switch name {
		case "pool":
			return errors.Join(readString(value, &pool), checkPool(pool, false))
		case "job":
			job, p = readLine(value, scheduleJobFields, a.config.MaxPayload, time.Now())
			return nil
		case "every":
			var o order
			err := o.readField(&setting{name, span, func(_ *order, v string) (err error) { s.Every, err = readDuration(v); return err }}, value)
			return err
		case "paused":
			return readTruth(value, &s.Paused)
		}
		return readWord(name, value, &s)
	})
	if err != nil {
		f.add("the body " + err.Error())
	}
	if p != nil {
		if len(p.Faults) == 0 {
			return s, p
		}
		for _, fault := range p.Faults {
			f.add("job: " + fault)
		}
	}
	if len(body) == 0 || pool == "" && !f.full() {
		f.add(`pool is missing: say to which the jobs go, as in {"pool": "reports", "cron": "30 2 * * *", "job": {"payload": "daily"}}`)
	}
	s.Job = job.job
	s.Job.Queue = pool
	return s, f.problem()
}

// readWord decodes a text field.
func readWord(name string, value []byte, s *job.Schedule) error {
	var word string
	err := readFilled(value, &word)
	if err != nil {
		return err
	}
	switch name {
	case "cron":
		s.Cron = word
	case "zone":
		s.Zone = word
	case "missed":
		s.Missed, err = job.ParseMissed(word)
	case "overlap":
		s.Overlap, err = job.ParseOverlap(word)
	}
	return err
}
