package record

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/job"
)

// DerivedID returns the id of the one job that is for what parts say: the same for
// all nodes, however often they ask. at is the time in it, by which ids are in
// order; it is a part too.
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

// CheckID reports what is wrong with the id of a job; it is a job.ErrNotFound.
func CheckID(id string) error {
	if _, err := ulid.ParseStrict(id); err != nil {
		return fmt.Errorf("%w: %q is not an id of a job: use the 26 characters that Enqueue gave", job.ErrNotFound, id)
	}
	return nil
}
