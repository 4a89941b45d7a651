package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/bullpen-run/bullpen"
)

// problemOf says what problem an error of an executor is.
func problemOf(err error) (status int, cause string, more map[string]any) {
	var te *bullpen.TaskError
	switch {
	case errors.As(err, &te):
		f := map[string]any{
			"outcome": te.Outcome.String(), "task": te.Task, "type": te.Type, "message": te.Message, "stack": te.Stack,
			"retryable": te.Retryable, "worker": te.Worker, "signal": te.Signal, "detail": te.Detail,
		}
		if te.Message == "" && te.Err != nil {
			f["message"] = te.Err.Error()
		}
		if te.ExitCode > 0 {
			f["exit_code"] = te.ExitCode
		}
		return http.StatusUnprocessableEntity, "ended-badly", map[string]any{"outcome": te.Outcome.String(), "failure": f, "detail": te.Error()}
	case errors.Is(err, bullpen.ErrClosed):
		return http.StatusServiceUnavailable, "closed", nil
	case errors.Is(err, bullpen.ErrOverloaded):
		return http.StatusTooManyRequests, "overloaded", nil
	case errors.Is(err, bullpen.ErrUnknownTask):
		return http.StatusUnprocessableEntity, "unknown-task", nil
	case errors.Is(err, bullpen.ErrRefused):
		return http.StatusUnprocessableEntity, "refused", map[string]any{"detail": err.Error()}
	case errors.Is(err, bullpen.ErrStart):
		return http.StatusServiceUnavailable, "start-failed", nil
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusUnprocessableEntity, "ended-badly", map[string]any{"outcome": "timeout"}
	case errors.Is(err, context.Canceled):
		return http.StatusUnprocessableEntity, "ended-badly", map[string]any{"outcome": "canceled"}
	default:
		return http.StatusInternalServerError, "internal", map[string]any{"detail": err.Error()}
	}
}

func problemJSON(status int, cause string, more map[string]any) map[string]any {
	p := map[string]any{"type": "urn:bullpen:problem:" + cause, "title": cause, "status": status, "cause": cause}
	maps.Copy(p, more)
	return p
}

func writeProblem(w http.ResponseWriter, status int, cause string, more map[string]any) {
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(w, status, problemJSON(status, cause, more))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone cannot be reached
}

// writeEnd answers with the end of a task or job.
func writeEnd(w http.ResponseWriter, header, id string, res bullpen.Result, err error) {
	if err != nil {
		status, cause, more := problemOf(err)
		if more == nil {
			more = map[string]any{}
		}
		if header == "Bullpen-Job" {
			more["job"] = id
			if _, started := bullpen.OutcomeOf(err); started {
				more["attempts"] = 1
			} else if more["outcome"] == nil {
				more["outcome"], more["reason"], more["detail"] = "failed", "refused", err.Error()
				status = http.StatusUnprocessableEntity
			}
		}
		writeProblem(w, status, cause, more)
		return
	}
	h := w.Header()
	h.Set(header, id)
	h.Set("Bullpen-Waited", strconv.FormatFloat(res.Stats.Waited.Seconds(), 'f', -1, 64))
	h.Set("Bullpen-Ran", strconv.FormatFloat(res.Stats.Ran.Seconds(), 'f', -1, 64))
	h.Set("Bullpen-Worker", res.Stats.Worker)
	h.Set("Bullpen-Peak-Memory", strconv.FormatInt(res.Stats.PeakMemory, 10))
	h.Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(res.Payload) // a client that is gone cannot be reached
}
