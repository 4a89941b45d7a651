package api

import (
	"errors"
	"net/http"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/level"
)

// WorkersInfo is the answer of /v1/workers.
type WorkersInfo struct {
	Workers []WorkerInfo `json:"workers"`
}

// WorkerInfo is a worker in the API's JSON.
type WorkerInfo struct {
	Pool  string `json:"pool"`
	ID    string `json:"id"`
	PID   int    `json:"pid,omitempty"`
	State string `json:"state"`
	// Tasks is the number of tasks that the worker has ended, and InHand the number
	// that it has now, of at most Window.
	Tasks  int     `json:"tasks"`
	InHand int     `json:"in_hand,omitempty"`
	Window int     `json:"window,omitempty"`
	Age    float64 `json:"age"`
	Idle   float64 `json:"idle,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	// Task is the id of the task that the worker has had in hand longest, TaskName
	// its name, and TaskAge for how long it has been the oldest.
	Task      string  `json:"task,omitempty"`
	TaskName  string  `json:"task_name,omitempty"`
	TaskAge   float64 `json:"task_age,omitempty"`
	Recycling bool    `json:"recycling,omitempty"`
}

func workerOf(pool string, w *level.Worker) WorkerInfo {
	return WorkerInfo{
		Pool: pool, ID: w.Name, PID: w.PID, State: w.State, Tasks: w.Served, InHand: w.InHand, Window: w.Window,
		Age: w.Age.Seconds(), Idle: w.Idle.Seconds(), Memory: w.Memory,
		Task: w.TaskID, TaskName: w.TaskName, TaskAge: w.TaskAge.Seconds(), Recycling: w.Recycling,
	}
}

// poolOf reads the name of a pool; empty means all pools.
func poolOf(q query, f *faults) string {
	name, there := q.look("pool")
	if err := checkPool(name, there); err != nil {
		f.add(err.Error())
	}
	return name
}

// workers returns the workers at this daemon, of one pool or of all.
func (a *API) workers(w http.ResponseWriter, _ *http.Request, q query) *problem.Problem {
	var f faults
	pool := poolOf(q, &f)
	if p := f.problem(); p != nil {
		return p
	}
	names := []string{pool}
	if pool == "" {
		names = a.backend.Pools()
	}
	all := WorkersInfo{Workers: []WorkerInfo{}}
	for _, name := range names {
		workers, err := a.backend.Workers(name)
		if errors.Is(err, ErrNoPool) && pool == "" {
			continue // removed by a reload meanwhile
		}
		if err != nil {
			return problemOf(err)
		}
		for i := range workers {
			all.Workers = append(all.Workers, workerOf(name, &workers[i]))
		}
	}
	return writeJSON(w, http.StatusOK, all)
}

// recycle replaces a worker once its tasks in hand have ended.
func (a *API) recycle(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	pool, there := q.look("pool")
	if !there {
		f.add("the query needs the pool of the worker, as GET /v1/workers shows it")
	}
	if err := checkPool(pool, there); err != nil {
		f.add(err.Error())
	}
	if p := f.problem(); p != nil {
		return p
	}
	if err := a.backend.Recycle(pool, r.PathValue("worker")); err != nil {
		return problemOf(err)
	}
	plainHeaders(w.Header())
	w.WriteHeader(http.StatusAccepted)
	return nil
}
