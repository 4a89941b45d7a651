package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// The JSON of the API as docs/openapi.yaml has it, written down once more: the codec of
// package job must not change it unnoticed.

// Job is a job in the API's JSON. Durations are in seconds, times as in RFC 3339.
// Unknown values are left out.
type Job struct {
	ID         string             `json:"id"`
	Pool       string             `json:"pool,omitempty"`
	Task       string             `json:"task,omitempty"`
	State      string             `json:"state"`
	Key        string             `json:"key,omitempty"`
	Group      string             `json:"group,omitempty"`
	Priority   string             `json:"priority,omitempty"`
	Enqueued   string             `json:"enqueued,omitempty"`
	At         string             `json:"at,omitempty"`
	Deadline   string             `json:"deadline,omitempty"`
	Attempts   int                `json:"attempts"`
	Crashes    int                `json:"crashes,omitempty"`
	Node       string             `json:"node,omitempty"`
	Worker     string             `json:"worker,omitempty"`
	Progress   float64            `json:"progress,omitempty"`
	Note       string             `json:"note,omitempty"`
	Ended      string             `json:"ended,omitempty"`
	Outcome    string             `json:"outcome,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Error      string             `json:"error,omitempty"`
	PayloadLen int                `json:"payload_size,omitempty"`
	ResultLen  int                `json:"result_size,omitempty"`
	Waited     float64            `json:"waited,omitempty"`
	Ran        float64            `json:"ran,omitempty"`
	PeakMemory int64              `json:"peak_memory,omitempty"`
	Parent     string             `json:"parent,omitempty"`
	Compensate string             `json:"compensate,omitempty"`
	Bury       string             `json:"bury,omitempty"`
	Schedule   string             `json:"schedule,omitempty"`
	Tick       string             `json:"tick,omitempty"`
	Chain      string             `json:"chain,omitempty"`
	Link       int                `json:"link,omitempty"`
	Links      int                `json:"links,omitempty"`
	Next       string             `json:"next,omitempty"`
	Batch      string             `json:"batch,omitempty"`
	Index      *int               `json:"index,omitempty"`
	Meta       map[string]string  `json:"meta,omitempty"`
	History    []Attempt          `json:"history,omitempty"`
	Lines      []Line             `json:"lines,omitempty"`
	Failure    *jsonvalue.Failure `json:"failure,omitempty"`
	// Payload is set for dead jobs only, as evidence.
	Payload string `json:"payload_base64,omitempty"`
}

// Attempt is one attempt of a job.
type Attempt struct {
	Number     int     `json:"number"`
	Outcome    string  `json:"outcome"`
	Ended      string  `json:"ended,omitempty"`
	Ran        float64 `json:"ran,omitempty"`
	Node       string  `json:"node,omitempty"`
	Worker     string  `json:"worker,omitempty"`
	Error      string  `json:"error,omitempty"`
	Signal     string  `json:"signal,omitempty"`
	ExitCode   *int    `json:"exit_code,omitempty"`
	PeakMemory int64   `json:"peak_memory,omitempty"`
}

// Line is one line that a task logged or printed.
type Line struct {
	Time   string `json:"time,omitempty"`
	Level  int    `json:"level"`
	Stream string `json:"stream,omitempty"`
	Text   string `json:"text"`
}

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

// JobLine is a job to enqueue in the API's JSON: a line of a bulk, plus the pool.
type JobLine struct {
	Pool       string            `json:"pool"`
	Task       string            `json:"task,omitempty"`
	Group      string            `json:"group,omitempty"`
	Payload    string            `json:"payload,omitempty"`
	Base64     string            `json:"payload_base64,omitempty"`
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

// Schedule is a schedule in the API's JSON. Every is in seconds; the times in
// Upcoming are in the schedule's zone.
type Schedule struct {
	Name      string       `json:"name"`
	Pool      string       `json:"pool,omitempty"`
	Cron      string       `json:"cron,omitempty"`
	Every     float64      `json:"every,omitempty"`
	Zone      string       `json:"zone,omitempty"`
	Missed    string       `json:"missed"`
	Overlap   string       `json:"overlap"`
	Paused    bool         `json:"paused,omitempty"`
	Origin    string       `json:"origin,omitempty"`
	Job       *ScheduleJob `json:"job,omitempty"`
	Next      string       `json:"next,omitempty"`
	Upcoming  []string     `json:"upcoming,omitempty"`
	Last      string       `json:"last,omitempty"`
	LastJob   string       `json:"last_job,omitempty"`
	LastState string       `json:"last_state,omitempty"`
	Fired     uint64       `json:"fired"`
	Skipped   uint64       `json:"skipped"`
	// Error is why the last tick failed to enqueue its job.
	Error string `json:"error,omitempty"`
}

// ScheduleJob is the job of a schedule, in the form of a line of a bulk. Durations
// are in seconds. The list of schedules leaves the payload out.
type ScheduleJob struct {
	Payload       string            `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	Meta          map[string]string `json:"meta,omitempty"`
	Task          string            `json:"task,omitempty"`
	Priority      string            `json:"priority,omitempty"`
	Timeout       float64           `json:"timeout,omitempty"`
	Memory        int64             `json:"memory,omitempty"`
	CPU           float64           `json:"cpu,omitempty"`
	Output        int               `json:"output,omitempty"`
	Attempts      int               `json:"attempts,omitempty"`
	Backoff       float64           `json:"backoff,omitempty"`
	MaxBackoff    float64           `json:"max_backoff,omitempty"`
	Crashes       int               `json:"crashes,omitempty"`
	Idempotent    bool              `json:"idempotent,omitempty"`
	Compensate    string            `json:"compensate,omitempty"`
	Bury          string            `json:"bury,omitempty"`
	Group         string            `json:"group,omitempty"`
}

// GroupLimits limits the jobs of one group of a pool; 0 is no limit.
type GroupLimits struct {
	Concurrency int     `json:"concurrency"`
	Rate        float64 `json:"rate"`
	Burst       int     `json:"burst"`
}

// Group is a group of a pool's jobs.
type Group struct {
	Group   string      `json:"group"`
	Waiting int         `json:"waiting"`
	Running int         `json:"running"`
	Oldest  string      `json:"oldest,omitempty"`
	Limits  GroupLimits `json:"limits"`
	Own     bool        `json:"own"`
}

// Causes is the answer of /v1/dead/causes.
type Causes struct {
	Causes []Cause `json:"causes"`
	// Jobs is the number of jobs examined. More reports that there are older ones
	// that there was no time to examine.
	Jobs int  `json:"jobs"`
	More bool `json:"more,omitempty"`
}

// Cause is what some dead jobs have in common.
type Cause struct {
	Cause   string `json:"cause"`
	Pool    string `json:"pool,omitempty"`
	Task    string `json:"task,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	Count   int    `json:"count"`
	First   string `json:"first,omitempty"`
	Last    string `json:"last,omitempty"`
	Sample  string `json:"sample"`
}

// Ref is the answer to an accepted job.
type Ref struct {
	ID       string `json:"id"`
	Pool     string `json:"pool,omitempty"`
	State    string `json:"state"`
	Existing bool   `json:"existing,omitempty"`
}

// Many is the answer to an operation on many jobs.
type Many struct {
	Count  int      `json:"count"`
	Failed []NotOne `json:"failed,omitempty"`
	// More reports that jobs are left. Call again with Next as After, which also
	// leaves out jobs added since the first call.
	More bool   `json:"more,omitempty"`
	Next string `json:"next,omitempty"`
}

// NotOne is a job for which the operation failed.
type NotOne struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// The answers that contain these.
type (
	listPage struct {
		Jobs []Job  `json:"jobs"`
		Next string `json:"next,omitempty"`
	}
	batchPage struct {
		Batches []Batch `json:"batches"`
		Next    string  `json:"next,omitempty"`
	}
	groupsAnswer struct {
		Limits GroupLimits `json:"limits"`
		Groups []Group     `json:"groups"`
		More   bool        `json:"more,omitempty"`
	}
	schedulesAnswer struct {
		Schedules []Schedule `json:"schedules"`
	}
)

// TestCodecHasWhatIsDocumented encodes values of package job in which all fields are
// set, and wants each field to be in the document's form, and back.
func TestCodecHasWhatIsDocumented(t *testing.T) {
	t.Parallel()
	info := filled[job.Info](t)
	info.State, info.Outcome, info.Reason, info.LastError = job.Dead, bullpen.Crashed, job.Exhausted, ""
	end := &job.EndError{ID: info.ID, Outcome: bullpen.Crashed, Reason: job.Exhausted, Attempts: info.Attempts, Task: filled[*bullpen.TaskError](t), Message: "m"}
	end.Task.ID, end.Task.Err, end.Message = info.ID, nil, end.Task.Message
	end.Task.Outcome = bullpen.Crashed
	info.Err, info.Stats.Worker, info.Stats.Deaths, info.Result = end, info.Worker, 0, nil
	info.History[0].Outcome = bullpen.Timeout
	same(t, info, new(Job))

	batch := filled[job.BatchInfo](t)
	batch.State = job.BatchRunning
	for _, j := range []*job.Job{batch.ThenJob, batch.FailedJob} {
		*j = jobWithoutKey(t)
		j.Then = []job.Job{jobWithoutKey(t)}
	}
	batch.FailedJob.Payload = []byte("\xff")
	same(t, batch, new(Batch))

	schedule := filled[job.ScheduleInfo](t)
	schedule.Missed, schedule.Overlap, schedule.Every = job.MissedAll, job.OverlapForbid, 0
	schedule.Job = jobWithoutKey(t)
	schedule.Job.Delay, schedule.Job.At, schedule.Job.Deadline = 0, time.Time{}, time.Time{}
	same(t, schedule, new(Schedule))

	cause := filled[job.Cause](t)
	cause.Outcome = bullpen.Panic
	same(t, cause, new(Cause))
	same(t, filled[job.GroupInfo](t), new(Group))
}

func jobWithoutKey(t *testing.T) job.Job {
	t.Helper()
	j := filled[job.Job](t)
	j.Key, j.Then, j.Priority, j.Retry.Nodes, j.Retry.On = "", nil, job.Low, 0, nil
	return j
}

// filled returns a value in which all fields are set.
func filled[T any](t *testing.T) T {
	t.Helper()
	var v T
	fill(reflect.ValueOf(&v).Elem(), 0)
	return v
}

func fill(v reflect.Value, depth int) {
	const deepest = 4
	switch v.Kind() { //nolint:exhaustive // package job has no other kinds
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3e9)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		if depth < deepest {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < deepest {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"name": "value"}))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 22, 1, 2, 3, 4000, time.UTC)))
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field, depth+1)
			}
		}
	}
}

// same wants v to have the JSON of the struct that wire points to, with all its fields,
// and to be the same when it was decoded.
func same[T any](t *testing.T, v T, wire any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(wire); err != nil {
		t.Fatalf("%T is %s: %v", v, text, err)
	}
	w := reflect.ValueOf(wire).Elem()
	for i := range w.NumField() {
		if name := w.Type().Field(i).Name; w.Field(i).IsZero() && name != "PayloadBase64" && name != "Base64" && name != "Every" {
			t.Errorf("%T has no %s: %s", v, name, text)
		}
	}
	var back T
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("%T comes back as\n%+v, %v, was\n%+v", v, back, err, v)
	}
}
