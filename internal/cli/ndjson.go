package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// jobFields has the parsers for the fields of a job that is one line of JSON.
var jobFields = map[string]func(j *job.Job, now time.Time, raw json.RawMessage) error{
	"task":       func(j *job.Job, _ time.Time, raw json.RawMessage) error { return textField(raw, &j.Name) },
	"key":        func(j *job.Job, _ time.Time, raw json.RawMessage) error { return textField(raw, &j.Key) },
	"bury":       func(j *job.Job, _ time.Time, raw json.RawMessage) error { return textField(raw, &j.Bury) },
	"group":      func(j *job.Job, _ time.Time, raw json.RawMessage) error { return textField(raw, &j.Group) },
	"compensate": func(j *job.Job, _ time.Time, raw json.RawMessage) error { return textField(raw, &j.Compensate) },
	"priority": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Priority, parsePriority)
	},
	"delay": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Delay, duration)
	},
	"backoff": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Retry.Backoff, duration)
	},
	"max_backoff": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Retry.MaxBackoff, duration)
	},
	"timeout": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Limits.Timeout, duration)
	},
	"at": func(j *job.Job, now time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.At, moment(now))
	},
	"deadline": func(j *job.Job, now time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Deadline, moment(now))
	},
	"memory": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Limits.Memory, size)
	},
	"cpu": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Limits.CPU, share)
	},
	"attempts": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Retry.Attempts, number(1, math.MaxInt32))
	},
	"crashes": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		return parsedField(raw, &j.Retry.Crashes, number(1, math.MaxInt32))
	},
	"output": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		var n int64
		err := parsedField(raw, &n, size)
		j.Limits.Output = int(min(n, math.MaxInt32))
		return err
	},
	"idempotent": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		if json.Unmarshal(raw, &j.Idempotent) != nil {
			return errors.New("use true or false")
		}
		return nil
	},
	"payload": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		if string(bytes.TrimSpace(raw)) == "null" {
			return errors.New("it is null: use a string, or leave it out")
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			// A payload that is a JSON value other than a string is used as it is.
			j.Payload = bytes.Clone(raw)
			return nil
		}
		j.Payload = []byte(text)
		return nil
	},
	"payload_base64": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		var text string
		if err := textField(raw, &text); err != nil {
			return err
		}
		var err error
		j.Payload, err = base64.StdEncoding.DecodeString(text)
		return err
	},
	"meta": func(j *job.Job, _ time.Time, raw json.RawMessage) error {
		meta := maps.Clone(j.Meta)
		if meta == nil {
			meta = map[string]string{}
		}
		if json.Unmarshal(raw, &meta) != nil {
			return errors.New("use an object of strings")
		}
		j.Meta = meta
		return nil
	},
}

func textField(raw json.RawMessage, to *string) error {
	if json.Unmarshal(raw, to) != nil {
		return errors.New("use a string")
	}
	return nil
}

// parsedField parses a string, or a number as if it were a string.
func parsedField[T any](raw json.RawMessage, to *T, parse func(string) (T, error)) error {
	text := string(bytes.TrimSpace(raw))
	if strings.HasPrefix(text, `"`) {
		if err := textField(raw, &text); err != nil {
			return err
		}
	}
	v, err := parse(text)
	if err == nil {
		*to = v
	}
	return err
}

// decodeJob decodes a job from a line of JSON. Fields that the line leaves out come
// from base. The error lists all faults.
func decodeJob(line []byte, base job.Job, now time.Time) (job.Job, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return job.Job{}, fmt.Errorf("this is not a JSON object: %w", err)
	}
	if fields == nil {
		return job.Job{}, errors.New("this is not a JSON object: use one such as {\"payload\":\"text\"}")
	}
	j := base
	var bad faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		read, known := jobFields[name]
		if !known {
			hint := ""
			if n := nearest(name, slices.Sorted(maps.Keys(jobFields))); n != "" {
				hint = fmt.Sprintf("; did you mean %q?", n)
			}
			bad.add("unknown field %q%s", plain(name), hint)
			continue
		}
		if err := read(&j, now, fields[name]); err != nil {
			bad.add("%s: %w", name, err)
		}
	}
	_, text := fields["payload"]
	_, binary := fields["payload_base64"]
	if text && binary {
		bad.add("payload and payload_base64 exclude each other")
	}
	return j, errors.Join(bad...)
}
