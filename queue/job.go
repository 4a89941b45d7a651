package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Priority says which jobs of a queue go first. Of every 13 jobs that are
// started while all three wait, 8 are high, 4 normal and 1 is low, so that low
// ones are slow but never stuck.
type Priority uint8

// The priorities.
const (
	Normal Priority = iota
	High
	Low

	priorities = iota
)

var priorityNames = [priorities]string{Normal: "normal", High: "high", Low: "low"}

// String returns the word for p.
func (p Priority) String() string {
	if int(p) < len(priorityNames) {
		return priorityNames[p]
	}
	return fmt.Sprintf("priority(%d)", uint8(p))
}

// ParsePriority returns the priority that word names.
func ParsePriority(word string) (Priority, error) {
	for i, name := range priorityNames {
		if name == word {
			return Priority(i), nil
		}
	}
	return 0, fmt.Errorf("unknown priority %q: use high, normal or low", word)
}

// Job is what is to be done, once. Only Name is needed by most executors.
type Job struct {
	// Queue is the name of the queue: lower-case letters, digits, "-" and "_".
	// Default "default".
	Queue string
	// Name is the kind of the task: it selects the handler.
	Name string
	// Payload is the input, opaque to the queue.
	Payload []byte
	// Meta travels with the job to its handler: traceparent, content type, keys
	// of your own. Keys that begin with "bullpen." are Bullpen's.
	Meta map[string]string
	// Key makes enqueuing idempotent: while a job of this queue with this key is
	// not done, and Config.KeyWindow after its end, a second Enqueue gives back
	// the first job, whatever else it says. Empty is no key.
	Key string
	// Group is whose job it is: a tenant, a customer, a host. The groups of a queue
	// have their turns one after the other, however much each has waiting, and each
	// may be limited (see GroupLimits). Empty is none; all jobs without a group have
	// their turn together, as one.
	Group string
	// Priority is Normal, High or Low.
	Priority Priority
	// Delay and At say when the job may start at the earliest; set one. Zero is
	// at once. At is kept to about 2 ms, never early.
	Delay time.Duration
	At    time.Time
	// Deadline ends the job with the outcome timeout if it has not ended by
	// then, started or not. Of a job that waits for a worker or its time this is
	// seen when a node takes it. Zero is never.
	Deadline time.Time
	// Limits bound each attempt.
	Limits bullpen.Limits
	// Retry is the policy; what it leaves open is as in Config.Retry.
	Retry Retry
	// Idempotent declares that running the job twice does what running it once
	// does. Then it runs again also when an executor has lost it (outcome lost).
	Idempotent bool
	// Compensate names a task that undoes what the job may have done by half. It
	// is enqueued to the same queue, once, with the job's payload and id (see
	// [AttemptOf]), when the job has started and ended for good otherwise than ok.
	Compensate string
	// Bury names a task that is told when the job is dead, whatever the reason (see
	// [Reason]) and whether it ever started, but not when it was canceled: it is
	// enqueued to the same queue, once, with the job's payload and metadata, and
	// [AttemptOf] tells it of which job and why. It has no Bury of its own.
	Bury string
	// Then makes the job the first of a chain: when it has ended well these follow,
	// one after the other, each with the result of the one before as its payload.
	// The chain ends at the first that ends otherwise. They have neither payload nor
	// key of their own, and a Delay counts from when the job is enqueued. At most 63;
	// the payload of the first job and what is stored of these share
	// Config.MaxPayload, and theirs is at most half of it.
	Then []Job
}

const (
	longestName = 256
	longestKey  = 1024
	mostMeta    = 64
	metaBytes   = 16 << 10
)

// check reports every fault of j at once.
func (j *Job) check(c *Config) error {
	var errs []error
	if j.Queue != "" {
		errs = append(errs, checkToken("Queue", j.Queue))
	}
	if len(j.Name) > longestName || len(j.Compensate) > longestName || len(j.Bury) > longestName {
		errs = append(errs, fmt.Errorf("Name has %d, Compensate %d and Bury %d bytes: use %d at most", len(j.Name), len(j.Compensate), len(j.Bury), longestName))
	}
	if len(j.Key) > longestKey {
		errs = append(errs, fmt.Errorf("Key has %d bytes: use %d at most, for example a hash of it", len(j.Key), longestKey))
	}
	if len(j.Payload) > c.MaxPayload {
		errs = append(errs, fmt.Errorf("Payload has %d bytes: at most %d are taken (Config.MaxPayload); put the data elsewhere and its name into the payload", len(j.Payload), c.MaxPayload))
	}
	if j.Priority >= priorities {
		errs = append(errs, fmt.Errorf("Priority is %v: use High, Normal or Low", j.Priority))
	}
	if j.Delay < 0 {
		errs = append(errs, fmt.Errorf("Delay is %v: use a positive duration, or 0 for none", j.Delay))
	}
	if j.Delay != 0 && !j.At.IsZero() {
		errs = append(errs, errors.New("Delay and At are both set: set one"))
	}
	if at := j.At; !j.Deadline.IsZero() && (at.After(j.Deadline) || j.Delay > 0 && j.Delay > time.Until(j.Deadline)) {
		errs = append(errs, fmt.Errorf("Deadline %v is before the job may start: set a later one, or none", j.Deadline.Format(time.RFC3339)))
	}
	errs = append(errs, checkGroup(j.Group), j.checkMeta(), j.Limits.Check(), j.checkThen(c))
	errs = append(errs, j.Retry.check("Retry")...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("job %q is not valid: %w", j.Name, err)
	}
	return nil
}

func (j *Job) checkMeta() error {
	size := 0
	for k, v := range j.Meta {
		size += len(k) + len(v)
	}
	for k := range j.Meta {
		if strings.HasPrefix(k, "bullpen.") {
			return fmt.Errorf("Meta has the key %q: keys that begin with \"bullpen.\" are Bullpen's, use another", k)
		}
	}
	if len(j.Meta) > mostMeta || size > metaBytes {
		return fmt.Errorf("Meta has %d keys and %d bytes: use %d keys and %d bytes at most", len(j.Meta), size, mostMeta, metaBytes)
	}
	return nil
}
