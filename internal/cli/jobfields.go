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

// jobFlags defines the flags of what a job says, and of meta, for readMeta.
func jobFlags(f flagSet, j *job.Job, meta *[]string) {
	add(f, &j.Name, "task", "t", "NAME", "", word, "name of the task, which selects the handler in the worker; by default the pool's")
	add(f, &j.Group, "group", "", "NAME", "", word, "group of the job, such as a customer; the groups of a pool take turns, each within its limits")
	add(f, &j.Priority, "priority", "", "WORD", "normal", parsePriority, "high, normal or low")
	add(f, &j.Limits.Timeout, "timeout", "", "TIME", "", positive, "run-time limit of an attempt")
	add(f, &j.Limits.Memory, "memory", "", "SIZE", "", size, "memory limit of an attempt")
	add(f, &j.Limits.CPU, "cpu", "", "N", "", share, "processor limit of an attempt")
	add(f, &j.Retry.Attempts, "attempts", "", "N", "", number(1, math.MaxInt32), "number of failed attempts after which the job is dead")
	add(f, &j.Retry.Backoff, "backoff", "", "TIME", "", positive, "delay before the second attempt; it doubles with each attempt")
	add(f, &j.Retry.MaxBackoff, "max-backoff", "", "TIME", "", positive, "maximum delay between two attempts")
	add(f, &j.Retry.Crashes, "crashes", "", "N", "", number(1, math.MaxInt32), "how many workers the job may kill before it is quarantined")
	f.BoolVar(&j.Idempotent, "idempotent", false, "running the job twice does no harm: it is retried also when its worker was lost")
	add(f, &j.Compensate, "compensate", "", "NAME", "", word, "task that undoes what the job may have done, run when it ends badly")
	add(f, &j.Bury, "bury", "", "NAME", "", word, "task to run if the job dies, with its payload; by default the pool's retry.bury")
	f.StringArrayVar(meta, "meta", nil, "pass `NAME=VALUE` to the handler, repeatable")
}

func parsePriority(text string) (job.Priority, error) {
	word, err := oneOf("high", "normal", "low")(text)
	if err != nil {
		return 0, err
	}
	return job.ParsePriority(word)
}

// readMeta parses the values of --meta.
func readMeta(values []string, bad *faults) map[string]string {
	meta := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			bad.add("--meta %q: use NAME=VALUE", v)
			continue
		}
		meta[name] = value
	}
	return meta
}

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
