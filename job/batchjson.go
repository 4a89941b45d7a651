package job

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// batchJSON is a BatchInfo.
type batchJSON struct {
	ID          string            `json:"id"`
	Key         string            `json:"key,omitempty"`
	State       BatchState        `json:"state"`
	Total       int               `json:"total"`
	Ended       int               `json:"ended"`
	OK          int               `json:"ok"`
	Failed      int               `json:"failed"`
	Canceled    int               `json:"canceled"`
	Lost        int               `json:"lost,omitempty"`
	Created     jsonvalue.Time    `json:"created,omitzero"`
	EndedAt     jsonvalue.Time    `json:"ended_at,omitzero"`
	FirstFailed string            `json:"first_failed,omitempty"`
	ThenJob     *Job              `json:"then,omitempty"`
	FailedJob   *Job              `json:"failed_job,omitempty"`
	ThenID      string            `json:"then_id,omitempty"`
	FailedID    string            `json:"failed_id,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Existing    bool              `json:"existing,omitempty"`
}

// MarshalJSON encodes i.
func (i BatchInfo) MarshalJSON() ([]byte, error) {
	return jsonvalue.Marshal(&batchJSON{
		ID: i.ID, Key: i.Key, State: i.State, Total: i.Total, Ended: i.Ended, OK: i.OK, Failed: i.Failed, Canceled: i.Canceled, Lost: i.Lost,
		Created: jsonvalue.Time(i.Created), EndedAt: jsonvalue.Time(i.EndedAt), FirstFailed: i.FirstFailed,
		ThenJob: i.ThenJob, FailedJob: i.FailedJob, ThenID: i.ThenID, FailedID: i.FailedID, Meta: i.Meta, Existing: i.Existing,
	})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (i *BatchInfo) UnmarshalJSON(text []byte) error {
	var w batchJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no batch: %w", err)
	}
	*i = BatchInfo{
		ID: w.ID, Key: w.Key, State: w.State, Total: w.Total, Ended: w.Ended, OK: w.OK, Failed: w.Failed, Canceled: w.Canceled, Lost: w.Lost,
		Created: time.Time(w.Created), EndedAt: time.Time(w.EndedAt), FirstFailed: w.FirstFailed,
		ThenJob: w.ThenJob, FailedJob: w.FailedJob, ThenID: w.ThenID, FailedID: w.FailedID, Meta: w.Meta, Existing: w.Existing,
	}
	return nil
}

// scheduleJSON is a Schedule without its name, which is part of the path.
type scheduleJSON struct {
	Queue   string            `json:"pool,omitempty"`
	Cron    string            `json:"cron,omitempty"`
	Every   jsonvalue.Seconds `json:"every,omitempty"`
	Zone    string            `json:"zone,omitempty"`
	Missed  Missed            `json:"missed"`
	Overlap Overlap           `json:"overlap"`
	Paused  bool              `json:"paused,omitempty"`
	Job     *Job              `json:"job,omitempty"` // without its queue
}

func (s *Schedule) json() scheduleJSON {
	w := scheduleJSON{
		Queue: s.Job.Queue, Cron: s.Cron, Every: jsonvalue.Seconds(s.Every), Zone: s.Zone, Missed: s.Missed, Overlap: s.Overlap, Paused: s.Paused,
	}
	if s.Job.Queue != "" { // otherwise its record is damaged
		j := s.Job
		j.Queue = ""
		w.Job = &j
	}
	return w
}

// MarshalJSON encodes s, without Name and Origin.
func (s Schedule) MarshalJSON() ([]byte, error) { return jsonvalue.Marshal(s.json()) }

// scheduleInfoJSON is a ScheduleInfo.
type scheduleInfoJSON struct {
	Name string `json:"name"`
	scheduleJSON
	Origin    string         `json:"origin,omitempty"`
	Next      jsonvalue.Time `json:"next,omitzero"`
	Upcoming  []time.Time    `json:"upcoming,omitempty"` // in the schedule's zone
	Last      jsonvalue.Time `json:"last,omitzero"`
	LastJob   string         `json:"last_job,omitempty"`
	LastState string         `json:"last_state,omitempty"`
	Fired     uint64         `json:"fired"`
	Skipped   uint64         `json:"skipped"`
	Err       string         `json:"error,omitempty"`
}

// MarshalJSON encodes i.
func (i ScheduleInfo) MarshalJSON() ([]byte, error) {
	w := scheduleInfoJSON{
		Name: i.Name, scheduleJSON: i.json(), Origin: i.Origin, Next: jsonvalue.Time(i.Next), Last: jsonvalue.Time(i.Last),
		LastJob: i.LastJob, LastState: i.LastState, Fired: i.Fired, Skipped: i.Skipped, Err: i.Err,
	}
	for _, t := range i.Upcoming {
		if i.Every != 0 {
			t = t.UTC()
		}
		w.Upcoming = append(w.Upcoming, t)
	}
	return jsonvalue.Marshal(&w)
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (i *ScheduleInfo) UnmarshalJSON(text []byte) error {
	var w scheduleInfoJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no schedule: %w", err)
	}
	*i = ScheduleInfo{
		Schedule: Schedule{
			Name: w.Name, Cron: w.Cron, Every: time.Duration(w.Every), Zone: w.Zone, Missed: w.Missed, Overlap: w.Overlap, Paused: w.Paused, Origin: w.Origin,
		},
		Next: time.Time(w.Next), Upcoming: w.Upcoming, Last: time.Time(w.Last), LastJob: w.LastJob, LastState: w.LastState, Fired: w.Fired, Skipped: w.Skipped, Err: w.Err,
	}
	if w.Job != nil {
		i.Job = *w.Job
	}
	i.Job.Queue = w.Queue
	return nil
}
