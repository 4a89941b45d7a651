package job

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

	Priorities = iota
)

var priorityNames = [Priorities]string{Normal: "normal", High: "high", Low: "low"}

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

// MarshalText returns the word for p.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePriority.
func (p *Priority) UnmarshalText(word []byte) (err error) {
	*p, err = ParsePriority(string(word))
	return err
}

// Job is one unit of work that a queue keeps until it has an outcome. Most executors
// need only Name.
type Job struct {
	// Queue is the name of the queue: lower-case letters, digits, "-" and "_".
	// Default "default".
	Queue string
	// Name is the kind of task. It selects the handler.
	Name string
	// Payload is the input, opaque to the queue.
	Payload []byte
	// Meta travels with the job to its handler: traceparent, content type, keys
	// of your own. Keys that begin with "bullpen." are Bullpen's.
	Meta map[string]string
	// Key makes enqueuing idempotent. Until the job has ended, and for
	// Config.KeyWindow after that, a second Enqueue to this queue with the same key
	// returns the first job and ignores the rest of the second. Empty: no key.
	Key string
	// Group says whose job it is: a tenant, a customer, a host. The groups of a queue
	// take turns, however many jobs each has waiting, and each may have limits (see
	// GroupLimits). Empty: no group. All jobs without a group share one turn.
	Group string
	// Priority is Normal, High or Low.
	Priority Priority
	// Delay and At are the earliest time at which the job may start; set at most
	// one. Zero means at once. The job starts up to about 2 ms after At, never before.
	Delay time.Duration
	At    time.Time
	// Deadline ends the job with the outcome timeout if it has not ended by then,
	// started or not. A job that is still waiting ends when a node takes it. Zero:
	// no deadline.
	Deadline time.Time
	// Limits bound each attempt.
	Limits bullpen.Limits
	// Retry is the retry policy. Zero fields are taken from Config.Retry.
	Retry Retry
	// Idempotent declares that running the job twice has the same effect as running
	// it once. Such a job also runs again after the outcome lost.
	Idempotent bool
	// Compensate names a task that undoes what the job may have done in part. It is
	// enqueued once, to the same queue, when the job has started and has ended for
	// good with an outcome other than ok. It gets the job's payload; queue.AttemptOf
	// returns the job's id.
	Compensate string
	// Bury names a task that is enqueued once, to the same queue, when the job is
	// dead, for whatever [Reason] and whether it ever started; not when it was
	// canceled. It gets the job's payload and metadata; queue.AttemptOf returns the
	// job's id and the reason. It has no Bury of its own.
	Bury string
	// Then makes the job the first of a chain. These jobs follow it one after the
	// other, each with the result of the one before as its payload; the chain ends
	// at the first job that does not end ok. They have no payload and no key of their
	// own, and their Delay counts from the end of the job before. There are at most
	// 63. Their records and the payload of the first job share Config.MaxPayload, of
	// which they may take half.
	Then []Job
}

// The bounds of what a job says.
const (
	// LongestName is how many bytes the name of a task has at most.
	LongestName = 256
	longestKey  = 1024
	mostMeta    = 64
	metaBytes   = 16 << 10
)

// Check reports all faults of j at once, except sizes that depend on the config of a
// queue; queue.Queue.Check reports these too.
func (j *Job) Check() error {
	var errs []error
	if j.Queue != "" {
		errs = append(errs, CheckToken("Queue", j.Queue))
	}
	if len(j.Name) > LongestName || len(j.Compensate) > LongestName || len(j.Bury) > LongestName {
		errs = append(errs, fmt.Errorf("Name has %d, Compensate %d and Bury %d bytes: use %d at most", len(j.Name), len(j.Compensate), len(j.Bury), LongestName))
	}
	if len(j.Key) > longestKey {
		errs = append(errs, fmt.Errorf("Key has %d bytes: use %d at most, for example a hash of it", len(j.Key), longestKey))
	}
	if j.Priority >= Priorities {
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
	errs = append(errs, CheckGroup(j.Group), checkMeta(j.Meta), j.Limits.Check(), j.checkThen())
	errs = append(errs, j.Retry.Check("Retry")...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("job %q is not valid: %w", j.Name, err)
	}
	return nil
}

// checkMeta reports what is wrong with the Meta of a job or a batch.
func checkMeta(meta map[string]string) error {
	size := 0
	for k, v := range meta {
		size += len(k) + len(v)
	}
	for k := range meta {
		if strings.HasPrefix(k, "bullpen.") {
			return fmt.Errorf("Meta has the key %q: keys that begin with \"bullpen.\" are Bullpen's, use another", k)
		}
	}
	if len(meta) > mostMeta || size > metaBytes {
		return fmt.Errorf("Meta has %d keys and %d bytes: use %d keys and %d bytes at most", len(meta), size, mostMeta, metaBytes)
	}
	return nil
}

// LongestChain is how many jobs a chain has at most.
const LongestChain = 64

// checkThen reports all faults of the jobs that follow j.
func (j *Job) checkThen() error {
	var errs []error
	if len(j.Then) >= LongestChain {
		errs = append(errs, fmt.Errorf("Then has %d jobs: use %d at most, and let the last one enqueue more", len(j.Then), LongestChain-1))
	}
	for i := range j.Then {
		l := &j.Then[i]
		if len(l.Then) > 0 {
			errs = append(errs, fmt.Errorf("Then[%d] has jobs of its own in Then: put all into the Then of the first job", i))
			continue
		}
		if len(l.Payload) > 0 {
			errs = append(errs, fmt.Errorf("Then[%d] has a payload: it gets the result of the job before it; put what else it needs into Meta", i))
		}
		if l.Key != "" {
			errs = append(errs, fmt.Errorf("Then[%d] has a key: give one to the first job, it stands for the whole chain", i))
		}
		if err := l.Check(); err != nil {
			errs = append(errs, fmt.Errorf("Then[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Late reports whether the deadline of j has passed at a moment.
func (j *Job) Late(now time.Time) bool { return !j.Deadline.IsZero() && !now.Before(j.Deadline) }
