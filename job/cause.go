package job

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// Cause is what some dead jobs have in common: queue, task, reason, outcome, and the
// first line of the error without the parts that differ from job to job.
type Cause struct {
	// Fingerprint identifies the cause, by 12 hexadecimal digits. It is the same on all
	// nodes, and in all versions 1.
	Fingerprint string          `json:"cause"`
	Queue       string          `json:"pool,omitempty"`
	Name        string          `json:"task,omitempty"`
	Reason      Reason          `json:"reason,omitempty"`
	Outcome     bullpen.Outcome `json:"-"`
	// Error is the first line of the error, with "#" in place of numbers and ids and
	// "…" in place of quoted parts.
	Error string `json:"error,omitempty"`
	// Count is how many jobs have this cause. First and Last are when the first and the
	// last of them died; Sample is the id of the last.
	Count  int       `json:"count"`
	First  time.Time `json:"-"`
	Last   time.Time `json:"-"`
	Sample string    `json:"sample"`
}

// Causes is the result of queue.Queue.DeadCauses.
type Causes struct {
	// Causes are in order of Count, largest first.
	Causes []Cause `json:"causes"`
	// Jobs is how many jobs were examined. More reports whether there are older ones
	// for which there was no time; then only the newest Jobs are counted.
	Jobs int  `json:"jobs"`
	More bool `json:"more,omitempty"`
}

// causeJSON is a Cause.
type causeJSON struct {
	plainCause
	Outcome jsonvalue.Outcome `json:"outcome"`
	First   jsonvalue.Time    `json:"first,omitzero"`
	Last    jsonvalue.Time    `json:"last,omitzero"`
}

type plainCause Cause

// MarshalJSON encodes c.
func (c Cause) MarshalJSON() ([]byte, error) {
	return jsonvalue.Marshal(&causeJSON{plainCause(c), jsonvalue.Outcome(c.Outcome), jsonvalue.Time(c.First), jsonvalue.Time(c.Last)})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (c *Cause) UnmarshalJSON(text []byte) error {
	var w causeJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no cause: %w", err)
	}
	*c = Cause(w.plainCause)
	c.Outcome, c.First, c.Last = bullpen.Outcome(w.Outcome), time.Time(w.First), time.Time(w.Last)
	return nil
}

// FingerprintLength is how many digits a Fingerprint has.
const FingerprintLength = 12

// isFingerprint reports whether s has the form of a Fingerprint.
func isFingerprint(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == FingerprintLength && s == strings.ToLower(s)
}
