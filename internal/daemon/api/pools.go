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

// PoolInfo is a pool in the API's JSON.
type PoolInfo struct {
	Name         string            `json:"name"`
	State        string            `json:"state"`
	Paused       bool              `json:"paused,omitempty"`
	Protocol     string            `json:"protocol,omitempty"`
	Program      string            `json:"program,omitempty"`
	Task         string            `json:"task,omitempty"`
	Ephemeral    bool              `json:"ephemeral,omitempty"`
	Min          int               `json:"min,omitempty"`
	Max          int               `json:"max,omitempty"`
	Helpers      int               `json:"helpers,omitempty"`
	Workers      Workers           `json:"workers"`
	Queued       int               `json:"queued,omitempty"`
	Blocked      int               `json:"blocked,omitempty"`
	InHand       int               `json:"in_hand,omitempty"`
	Jobs         []Depth           `json:"jobs,omitempty"`
	Accepted     uint64            `json:"accepted,omitempty"`
	Outcomes     map[string]uint64 `json:"outcomes,omitempty"`
	NeverStarted uint64            `json:"never_started,omitempty"`
	Refused      uint64            `json:"refused,omitempty"`
	Started      uint64            `json:"started,omitempty"`
	Stopped      uint64            `json:"stopped,omitempty"`
	Deaths       map[string]uint64 `json:"deaths,omitempty"`
	FailedStarts uint64            `json:"failed_starts,omitempty"`
	WaitP50      float64           `json:"wait_p50,omitempty"`
	WaitP99      float64           `json:"wait_p99,omitempty"`
	RunP50       float64           `json:"run_p50,omitempty"`
	RunP99       float64           `json:"run_p99,omitempty"`
	StartP50     float64           `json:"start_p50,omitempty"`
	Error        string            `json:"error,omitempty"`
}

// Workers counts the workers of a pool by state.
type Workers struct {
	Starting int `json:"starting,omitempty"`
	Idle     int `json:"idle,omitempty"`
	Busy     int `json:"busy,omitempty"`
	Leaving  int `json:"leaving,omitempty"`
}

// Depth is the number of jobs of one priority in a queue.
type Depth struct {
	Priority string `json:"priority"`
	Waiting  int    `json:"waiting,omitempty"`
	Taken    int    `json:"taken,omitempty"`
	Oldest   string `json:"oldest,omitempty"`
}

// Pools is the answer of /v1/pools.
type Pools struct {
	Pools []PoolInfo `json:"pools"`
}

// poolInfo returns all information about a pool.
func (a *API) poolInfo(ctx context.Context, name string) (PoolInfo, error) {
	p, err := a.backend.Pool(ctx, name)
	if err != nil {
		return PoolInfo{}, err
	}
	depth, err := a.backend.Queue().Depth(ctx, name)
	if err != nil {
		return PoolInfo{}, err
	}
	return infoOf(&p, depth), nil
}

func infoOf(p *Pool, depth []job.Depth) PoolInfo {
	i := PoolInfo{
		Name: p.Name, State: p.State, Protocol: p.Protocol, Program: p.Program, Task: p.Task, Ephemeral: p.Ephemeral,
		Min: p.Min, Max: p.Max, Helpers: p.Helpers, Workers: Workers{p.Starting, p.Idle, p.Busy, p.Leaving},
		Queued: p.Queued, Blocked: p.Blocked, InHand: p.InHand, Accepted: p.Accepted, NeverStarted: p.NeverStarted, Refused: p.Refused,
		Started: p.Started, Stopped: p.Stopped, Deaths: p.Deaths, FailedStarts: p.FailedStarts, Outcomes: words(p.Outcomes),
		WaitP50: p.QueueTime.Quantile(0.5).Seconds(), WaitP99: p.QueueTime.Quantile(0.99).Seconds(),
		RunP50: p.RunTime.Quantile(0.5).Seconds(), RunP99: p.RunTime.Quantile(0.99).Seconds(),
		StartP50: p.StartTime.Quantile(0.5).Seconds(), Error: p.Error,
	}
	for _, d := range depth {
		i.Paused = i.Paused || d.Paused
		i.Jobs = append(i.Jobs, Depth{Priority: d.Priority.String(), Waiting: d.Waiting, Taken: d.Taken, Oldest: stamp(d.Oldest)})
	}
	return i
}

// words converts counts of outcomes to counts by their names.
func words(counts map[bullpen.Outcome]uint64) map[string]uint64 {
	if len(counts) == 0 {
		return nil
	}
	all := make(map[string]uint64, len(counts))
	for o, n := range counts {
		all[o.String()] = n
	}
	return all
}

func (a *API) pools(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	all := Pools{Pools: []PoolInfo{}}
	for _, name := range a.backend.Pools() {
		info, err := a.poolInfo(r.Context(), name)
		if errors.Is(err, ErrNoPool) {
			continue // removed by a reload meanwhile
		}
		if err != nil {
			return problemOf(err)
		}
		all.Pools = append(all.Pools, info)
	}
	return writeJSON(w, http.StatusOK, all)
}

func (a *API) pool(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	return a.answerPool(w, r, r.PathValue("pool"))
}

func (a *API) answerPool(w http.ResponseWriter, r *http.Request, name string) *problem.Problem {
	info, err := a.poolInfo(r.Context(), name)
	if err != nil {
		return problemOf(err)
	}
	return writeJSON(w, http.StatusOK, info)
}

const mostWorkers = 65536

// scale changes the bounds of a pool.
func (a *API) scale(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	name := r.PathValue("pool")
	if _, err := a.backend.Pool(r.Context(), name); err != nil {
		return problemOf(err)
	}
	least, most := -1, -1
	var f faults
	p := readObject(r, []string{"min", "max"}, &f, func(name string, value []byte) error {
		if name == "min" {
			return readWhole(value, 0, mostWorkers, &least)
		}
		return readWhole(value, 1, mostWorkers, &most)
	})
	if p != nil {
		return p
	}
	if least < 0 && most < 0 {
		f.add(`nothing is to be changed: give {"min": 1}, {"max": 4} or both`)
	}
	if most >= 0 && least > most {
		f.add("min is larger than max: give a smaller one")
	}
	if p := f.problem(); p != nil {
		return p
	}
	if err := a.backend.Scale(name, least, most); err != nil {
		p := problemOf(err)
		if p.Cause == problem.Internal { // the pool rejects these bounds
			p = manyFaults(problem.BadRequest, "", err)
		}
		return p
	}
	return a.answerPool(w, r, name)
}

func (a *API) pause(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	return a.stopOrGo(w, r, a.backend.Queue().Pause)
}

func (a *API) resume(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	return a.stopOrGo(w, r, a.backend.Queue().Resume)
}

func (a *API) stopOrGo(w http.ResponseWriter, r *http.Request, do func(context.Context, string) error) *problem.Problem {
	name := r.PathValue("pool")
	_, err := a.backend.Pool(r.Context(), name)
	if err == nil {
		err = do(r.Context(), name)
	}
	if err != nil {
		return problemOf(err)
	}
	return a.answerPool(w, r, name)
}

// reloadPool replaces the workers of a pool.
func (a *API) reloadPool(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	name := r.PathValue("pool")
	if err := a.backend.ReloadPool(r.Context(), name); err != nil {
		return problemOf(err)
	}
	return a.answerPool(w, r, name)
}

// Changed is the answer of /v1/reload.
type Changed struct {
	Changed []string `json:"changed"`
}

// reload reads the configuration again.
func (a *API) reload(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	changed, err := a.backend.Reload(r.Context())
	if err != nil {
		p := problemOf(err)
		if p.Cause == problem.Internal {
			p = manyFaults(problem.BadConfig, "The old configuration stays in force. ", err)
		}
		return p
	}
	if changed == nil {
		changed = []string{}
	}
	return writeJSON(w, http.StatusOK, Changed{changed})
}

// since returns the time since t, in seconds.
func since(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return time.Since(t).Seconds()
}
