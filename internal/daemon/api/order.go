package api

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// order is a request to run a job or an ephemeral task.
type order struct {
	job    job.Job
	wait   time.Duration
	waits  bool // wait was given
	id     string
	chunks bool
	parent string
}

// The bounds of a job, as in package queue.
const (
	longestName = 256
	longestKey  = 1024
	longestID   = 64
	mostMeta    = 64
	metaBytes   = 16 << 10
	mostTries   = 1 << 16

	longestChain = 64
)

// setting is one parameter of an order, for queries and for lines of a bulk.
type setting struct {
	name string
	kind settingKind
	set  func(o *order, v string) error
}

// settingKind is the form that a setting may have in JSON, besides a string.
type settingKind uint8

const (
	plain  settingKind = iota // a string only
	span                      // a number of seconds
	size                      // a number of bytes
	number                    // a number
	flag                      // true or false
)

// settings is the table of parameters of orders.
var settings = []setting{
	{"task", plain, func(o *order, v string) error { o.job.Name = v; return checkText(v, longestName) }},
	{"key", plain, func(o *order, v string) error { o.job.Key = v; return checkText(v, longestKey) }},
	{"group", plain, func(o *order, v string) error { o.job.Group = v; return checkText(v, longestName) }},
	{"priority", plain, func(o *order, v string) (err error) { o.job.Priority, err = job.ParsePriority(v); return err }},
	{"delay", span, func(o *order, v string) (err error) { o.job.Delay, err = readDuration(v); return err }},
	{"at", plain, func(o *order, v string) (err error) { o.job.At, err = readTime(v); return err }},
	{"deadline", plain, func(o *order, v string) (err error) { o.job.Deadline, err = readTime(v); return err }},
	{"timeout", span, func(o *order, v string) (err error) { o.job.Limits.Timeout, err = readDuration(v); return err }},
	{"memory", size, func(o *order, v string) (err error) { o.job.Limits.Memory, err = readSize(v); return err }},
	{"cpu", number, func(o *order, v string) (err error) { o.job.Limits.CPU, err = readCPU(v); return err }},
	{"output", size, func(o *order, v string) error {
		n, err := readSize(v)
		o.job.Limits.Output = int(n)
		return err
	}},
	{"attempts", number, func(o *order, v string) (err error) {
		o.job.Retry.Attempts, err = readCount(v, 1, mostTries)
		return err
	}},
	{"backoff", span, func(o *order, v string) (err error) { o.job.Retry.Backoff, err = readDuration(v); return err }},
	{"max_backoff", span, func(o *order, v string) (err error) { o.job.Retry.MaxBackoff, err = readDuration(v); return err }},
	{"crashes", number, func(o *order, v string) (err error) {
		o.job.Retry.Crashes, err = readCount(v, 1, mostTries)
		return err
	}},
	{"idempotent", flag, func(o *order, v string) (err error) { o.job.Idempotent, err = readFlag(v); return err }},
	{"compensate", plain, func(o *order, v string) error { o.job.Compensate = v; return checkText(v, longestName) }},
	{"bury", plain, func(o *order, v string) error { o.job.Bury = v; return checkText(v, longestName) }},
	{"wait", span, func(o *order, v string) (err error) { o.wait, err = readDuration(v); o.waits = true; return err }},
	{"id", plain, func(o *order, v string) error { o.id = v; return checkRunID(v) }},
	{"chunks", flag, func(o *order, v string) (err error) { o.chunks, err = readFlag(v); return err }},
}

// The settings that each kind of request accepts.
var (
	submitParams = names("id", "chunks")
	runParams    = []string{"task", "timeout", "memory", "cpu", "output", "deadline", "id", "chunks"}
	lineParams   = names("id", "chunks", "wait")
	lineFields   = append([]string{"payload", "payload_base64", "meta", "then"}, lineParams...)
	// scheduleJobFields are for the job of a schedule, which has no followers. A key
	// and times are accepted here, to be refused later with the reason.
	scheduleJobFields = slices.DeleteFunc(slices.Clone(lineFields), func(f string) bool { return f == "then" })
	// memberFields are for a job that names its pool, linkFields for a job that
	// follows another.
	memberFields = append([]string{"pool"}, lineFields...)
	linkFields   = append([]string{"pool", "meta"}, names("id", "chunks", "wait", "key")...)
)

// names returns the names of all settings except some.
func names(but ...string) []string {
	var all []string
	for _, s := range settings {
		if !slices.Contains(but, s.name) {
			all = append(all, s.name)
		}
	}
	return all
}

func settingOf(name string) *setting {
	for i := range settings {
		if settings[i].name == name {
			return &settings[i]
		}
	}
	return nil
}

// readOrder reads the parameters of an order.
func readOrder(q query, f *faults) order {
	var o order
	for i := range q {
		if err := settingOf(q[i].name).set(&o, q[i].value); err != nil {
			f.add(q[i].name + " is " + quoted(q[i].value) + ": " + err.Error())
		}
	}
	return o
}

// quoted returns a caller's value in the form in which faults quote it.
func quoted(v string) string {
	const most = 80
	if len(v) > most {
		return strconv.Quote(v[:most]) + "…"
	}
	return strconv.Quote(v)
}

func checkText(v string, most int) error {
	if len(v) > most {
		return fmt.Errorf("it has %d bytes, use %d at most", len(v), most)
	}
	if !utf8.ValidString(v) {
		return errors.New("it is not UTF-8")
	}
	return nil
}

func checkID(v string) error {
	ok := v != "" && len(v) <= longestID
	for i := 0; i < len(v) && ok; i++ {
		c := v[i] | 0x20 // to lower case
		ok = c >= 'a' && c <= 'z' || v[i] >= '0' && v[i] <= '9' || v[i] == '-' || v[i] == '_'
	}
	if !ok {
		return fmt.Errorf("use 1 to %d letters, digits, - and _", longestID)
	}
	return nil
}

// checkRunID checks the id of an ephemeral task, which must not look like a job's.
func checkRunID(v string) error {
	if _, err := ulid.ParseStrict(v); err == nil {
		return errors.New("it has the form of a job id: use another form, for example with a -, or none")
	}
	return checkID(v)
}

// settle checks settings that depend on each other, and converts delays to times.
func (o *order) settle(now time.Time, f *faults) {
	j := &o.job
	if j.Delay > 0 {
		if !j.At.IsZero() {
			f.add("delay and at are both set: use one")
		}
		j.At, j.Delay = now.Add(j.Delay), 0
	}
	if !j.Deadline.IsZero() && j.At.After(j.Deadline) {
		f.add("deadline is before the job may start: give a later one, or none")
	}
	size := 0
	for k, v := range j.Meta {
		size += len(k) + len(v)
		if strings.HasPrefix(k, "bullpen.") {
			f.add("the meta key " + quoted(k) + ` begins with "bullpen.": use another`)
		}
	}
	if len(j.Meta) > mostMeta || size > metaBytes {
		f.add(fmt.Sprintf("meta has more than %d keys or %d bytes: use fewer", mostMeta, metaBytes))
	}
}

// task converts the order to an ephemeral task.
func (o *order) task() bullpen.Task {
	return bullpen.Task{ID: o.id, Name: o.job.Name, Payload: o.job.Payload, Meta: o.job.Meta, Limits: o.job.Limits}
}
