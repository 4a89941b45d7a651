package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// ended is the JSON object of a task that bypassed the queue.
type ended struct {
	Pool         string  `json:"pool"`
	Task         string  `json:"task,omitempty"`
	Outcome      string  `json:"outcome"`
	Error        string  `json:"error,omitempty"`
	Detail       string  `json:"detail,omitempty"`
	Worker       string  `json:"worker,omitempty"`
	Waited       float64 `json:"waited"`
	Ran          float64 `json:"ran"`
	PeakMemory   int64   `json:"peak_memory,omitempty"`
	Result       *string `json:"result,omitempty"`
	ResultBase64 string  `json:"result_base64,omitempty"`
}

// runOnce runs a task that bypasses the queue, and prints its result.
func (s *submission) runOnce(ctx context.Context, c *client.Client, pool string, j job.Job) error {
	waiting := ctx
	if s.wait.limit != 0 && s.wait.limit != forever {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, s.wait.limit)
		defer cancel()
	}
	if !j.Deadline.IsZero() {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(waiting, j.Deadline)
		defer cancel()
	}
	task := bullpen.Task{Name: j.Name, Payload: j.Payload, Meta: j.Meta, Limits: j.Limits}
	result, err := c.RunEphemeral(waiting, pool, task)
	te, started := errors.AsType[*bullpen.TaskError](err)
	switch {
	case err == nil && !s.asJSON:
		return s.bytes(result.Payload, "the result", "send it to a file, > FILE")
	case err != nil && ctx.Err() != nil:
		s.say("interrupted; the task was canceled")
		return status(exitInterrupted)
	case err != nil && (!started || !s.asJSON):
		return ofPool(pool, err)
	}
	e := ended{
		Pool: pool, Task: j.Name, Outcome: bullpen.OK.String(), Worker: result.Stats.Worker, PeakMemory: result.Stats.PeakMemory,
		Waited: result.Stats.Waited.Seconds(), Ran: result.Stats.Ran.Seconds(),
	}
	switch {
	case started:
		e.Outcome, e.Error, e.Detail = te.Outcome.String(), te.Error(), te.Detail
	case utf8.Valid(result.Payload):
		text := string(result.Payload)
		e.Result = &text
	default:
		e.ResultBase64 = base64.StdEncoding.EncodeToString(result.Payload)
	}
	if err := s.object(e); err != nil {
		return err
	}
	if started {
		return status(exitFailed)
	}
	return nil
}
