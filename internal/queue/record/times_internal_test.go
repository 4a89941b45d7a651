package record

import (
	"math"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// TestTimesFarAway has a deadline that stands for never, and a time to begin.
func TestTimesFarAway(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Unix(1<<40, 0),
		time.Unix(1<<55, 0),
		time.Unix(math.MaxInt64-62135596801, 999_999_999), // the last that compares
	} {
		s := &Job{ID: anyID(), Job: job.Job{Deadline: when, At: when}}
		got, err := DecodeJob(s.ID, s.Encode())
		if err != nil {
			t.Errorf("%v: %v", when, err)
			continue
		}
		if soon := time.Now().AddDate(1000, 0, 0); got.Job.Late(soon) || got.Job.At.Before(soon) {
			t.Errorf("a time in the year %d comes back as the year %d", when.Year(), got.Job.Deadline.Year())
		}
	}
}
