package record

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/job"
)

// DerivedID returns the id that follows from parts: the same on all nodes and for every
// call. at is the time in the id, by which ids are ordered; it is one of the parts too.
func DerivedID(at time.Time, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	var id ulid.ULID
	copy(id[6:], h.Sum(nil))
	if err := id.SetTime(uint64(max(at.UnixMilli(), 0))); err != nil {
		id.SetTime(ulid.MaxTime()) //nolint:errcheck // a time after the last one is as good as the last
	}
	return id.String()
}

// CheckID reports what is wrong with the id of a job; the error is a job.ErrNotFound.
func CheckID(id string) error {
	if _, err := ulid.ParseStrict(id); err != nil {
		return fmt.Errorf("%w: %q is not an id of a job: use the 26 characters that Enqueue gave", job.ErrNotFound, id)
	}
	return nil
}
