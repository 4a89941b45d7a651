package queue

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/oklog/ulid/v2"
)

// derivedID returns the id of the one job that is for what parts say: the same for
// all nodes, however often they ask. at is the time in it, by which ids are in
// order; it is a part too.
func derivedID(at time.Time, parts ...string) string {
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

// enqueueDerived enqueues a job whose id is derived. That it was enqueued before is
// well: while it is in the queue it is not put again, and if it has ended the second
// one finds its outcome instead of running.
func (q *Queue) enqueueDerived(ctx context.Context, s *stored) (Ref, error) {
	s.derived = true
	return q.enqueueUnder(ctx, s, false)
}
