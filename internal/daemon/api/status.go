package api

import (
	"net/http"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/queue"
)

// StatusInfo is the answer of /v1/status.
type StatusInfo struct {
	Version         string    `json:"version,omitempty"`
	Node            string    `json:"node,omitempty"`
	Uptime          float64   `json:"uptime"`
	Ready           bool      `json:"ready"`
	Live            bool      `json:"live"`
	Stopping        bool      `json:"stopping"`
	Store           StoreInfo `json:"store"`
	Queue           QueueInfo `json:"queue"`
	LogLinesDropped uint64    `json:"log_lines_dropped,omitempty"`
	ReloadError     string    `json:"reload_error,omitempty"`
}

// StoreInfo describes the store. Error is why it does not answer.
type StoreInfo struct {
	Kind       string   `json:"kind,omitempty"`
	Durability string   `json:"durability,omitempty"`
	Replicas   int      `json:"replicas,omitempty"`
	Jobs       Usage    `json:"jobs"`
	Outcomes   Usage    `json:"outcomes"`
	State      Usage    `json:"state"`
	Dead       Usage    `json:"dead"`
	DeadKept   Kept     `json:"dead_kept"`
	Sync       SyncInfo `json:"sync"`
	Error      string   `json:"error,omitempty"`
}

// Usage is the amount of data in a part of the store.
type Usage struct {
	Messages int64 `json:"messages,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
}

// Kept describes how long dead jobs are kept: the maximum age in seconds, unless
// newer jobs need the space earlier; when the oldest one was stored, and when it
// expires.
type Kept struct {
	MaxBytes int64   `json:"max_bytes,omitempty"`
	MaxAge   float64 `json:"max_age,omitempty"`
	Oldest   string  `json:"oldest,omitempty"`
	Expires  string  `json:"expires,omitempty"`
}

// SyncInfo describes how long the store's writes to disk take, in seconds.
type SyncInfo struct {
	Syncs    int64   `json:"syncs,omitempty"`
	Confirms int64   `json:"confirms,omitempty"`
	P50      float64 `json:"p50,omitempty"`
	P99      float64 `json:"p99,omitempty"`
	Max      float64 `json:"max,omitempty"`
	Last     float64 `json:"last,omitempty"`
}

// QueueInfo counts what this node has done on the queue since it started.
type QueueInfo struct {
	Enqueued    uint64            `json:"enqueued,omitempty"`
	Duplicates  uint64            `json:"duplicates,omitempty"`
	Refused     uint64            `json:"refused,omitempty"`
	Taken       uint64            `json:"taken,omitempty"`
	Redelivered uint64            `json:"redelivered,omitempty"`
	Ended       map[string]uint64 `json:"ended,omitempty"`
	Retried     uint64            `json:"retried,omitempty"`
	GaveBack    uint64            `json:"gave_back,omitempty"`
	Dead        uint64            `json:"dead,omitempty"`
	Quarantined uint64            `json:"quarantined,omitempty"`
	Damaged     uint64            `json:"damaged,omitempty"`
	Missing     uint64            `json:"missing,omitempty"`
	InHand      int               `json:"in_hand,omitempty"`
	Recording   int               `json:"recording,omitempty"`
	EventsLost  uint64            `json:"events_lost,omitempty"`
}

// status returns the status of the daemon. A store that does not answer is reported
// in it, not as a problem.
func (a *API) status(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	s := a.backend.Status()
	info := StatusInfo{
		Version: s.Version, Node: s.Node, Uptime: since(s.Started), Ready: s.Ready, Live: s.Live, Stopping: s.Stopping,
		Queue: queueInfo(a.backend.Queue().Stats()), LogLinesDropped: s.LogLinesDropped, ReloadError: s.ReloadFailed,
	}
	store, err := a.backend.Queue().Status(r.Context())
	info.Store = storeInfo(store)
	if err != nil {
		info.Store.Error = err.Error()
	}
	return writeJSON(w, http.StatusOK, info)
}

func storeInfo(s queue.Status) StoreInfo {
	return StoreInfo{
		Kind: s.Kind, Durability: s.Durability, Replicas: s.Replicas,
		Jobs: Usage(s.Jobs), Outcomes: Usage(s.Outcomes), State: Usage(s.State), Dead: Usage(s.Dead),
		DeadKept: Kept{s.DeadKept.MaxBytes, s.DeadKept.MaxAge.Seconds(), stamp(s.DeadKept.Oldest), stamp(s.DeadKept.Expires)},
		Sync:     SyncInfo{s.Sync.Syncs, s.Sync.Confirms, s.Sync.P50.Seconds(), s.Sync.P99.Seconds(), s.Sync.Max.Seconds(), s.Sync.Last.Seconds()},
	}
}

func queueInfo(s queue.Stats) QueueInfo {
	return QueueInfo{
		Enqueued: s.Enqueued, Duplicates: s.Duplicates, Refused: s.Refused, Taken: s.Taken, Redelivered: s.Redelivered,
		Ended: words(s.Ended), Retried: s.Retried, GaveBack: s.GaveBack, Dead: s.Dead, Quarantined: s.Quarantined,
		Damaged: s.Damaged, Missing: s.Missing, InHand: s.InHand, Recording: s.Recording, EventsLost: s.EventsLost,
	}
}
