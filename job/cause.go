package job

import (
	"encoding/hex"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Cause is why some jobs are dead, as far as that is the same for them: queue,
// task, reason, outcome, and the first line of the error without what differs from
// job to job.
type Cause struct {
	// Fingerprint stands for the rest, in 12 hexadecimal digits. It is the same on
	// all nodes and in all versions 1.
	Fingerprint string
	Queue, Name string
	Reason      Reason
	Outcome     bullpen.Outcome
	// Error is the first line of the error, with "#" for its numbers and ids and
	// "…" for its quoted parts.
	Error string
	// Count is how many jobs have it, First and Last when the first and the last of
	// them died, and Sample the id of the last.
	Count       int
	First, Last time.Time
	Sample      string
}

// Causes is what DeadCauses has found.
type Causes struct {
	// Causes are in order: those of most jobs first.
	Causes []Cause
	// Jobs is how many jobs were looked at. More says that there are older ones, which
	// the time did not suffice for: then the counts are of the last Jobs.
	Jobs int
	More bool
}

// FingerprintLength is how many digits a Fingerprint has.
const FingerprintLength = 12

// IsFingerprint reports whether s has the form of a Fingerprint.
func IsFingerprint(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == FingerprintLength && s == strings.ToLower(s)
}
