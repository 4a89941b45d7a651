package api

import (
	"net/http"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// causes returns the causes of dead jobs.
func (a *API) causes(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	c := readChoice(q, &f)
	if p := f.problem(); p != nil {
		return p
	}
	found, err := a.backend.Queue().DeadCauses(r.Context(), c.filter)
	if err != nil {
		return problemOf(err)
	}
	found.Causes = append([]job.Cause{}, found.Causes...) // [] and not null
	return writeJSON(w, http.StatusOK, found)
}

// getDead returns a dead job with its evidence.
func (a *API) getDead(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	info, err := a.backend.Queue().GetDead(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	return writeJSON(w, http.StatusOK, info)
}

// removeDead deletes a dead job.
func (a *API) removeDead(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	if err := a.backend.Queue().RemoveDead(r.Context(), id); err != nil {
		return onJob(problemOf(err), id)
	}
	noContent(w)
	return nil
}

// verbs are the names that may follow a path in place of a job's id, with their
// method, by the pattern of the path.
var verbs = map[string]map[string]string{
	"/v1/jobs/{id}": {"cancel": http.MethodPost, "retry": http.MethodPost},
	"/v1/dead/{id}": {"retry": http.MethodPost, "remove": http.MethodPost, "causes": http.MethodGet},
}

// notAnID answers a request that uses the name of a call as a job's id, whatever else
// is wrong with it.
func (h *handler) notAnID(w http.ResponseWriter, r *http.Request) *problem.Problem {
	method := h.verbs[r.PathValue("id")]
	if method == "" {
		return nil
	}
	w.Header().Set("Allow", method)
	return problem.New(problem.Method, r.Method+" is not allowed here: use "+method+".")
}
