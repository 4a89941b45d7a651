package job

import (
	"encoding/hex"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Cause is what some dead jobs have in common: queue, task, reason, outcome, and the
// first line of the error without the parts that differ from job to job.
type Cause struct {
	// Fingerprint identifies the cause, by 12 hexadecimal digits. It is the same on all
	// nodes, and in all versions 1.
	Fingerprint string
	Queue, Name string
	Reason      Reason
	Outcome     bullpen.Outcome
	// Error is the first line of the error, with "#" in place of numbers and ids and
	// "…" in place of quoted parts.
	Error string
	// Count is how many jobs have this cause. First and Last are when the first and the
	// last of them died; Sample is the id of the last.
	Count       int
	First, Last time.Time
	Sample      string
}

// Causes is the result of queue.Queue.DeadCauses.
type Causes struct {
	// Causes are in order of Count, largest first.
	Causes []Cause
	// Jobs is how many jobs were examined. More reports whether there are older ones
	// for which there was no time; then only the newest Jobs are counted.
	Jobs int
	More bool
}

// FingerprintLength is how many digits a Fingerprint has.
const FingerprintLength = 12

// isFingerprint reports whether s has the form of a Fingerprint.
func isFingerprint(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == FingerprintLength && s == strings.ToLower(s)
}
