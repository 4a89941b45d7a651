package record

import (
	"errors"
	"strings"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// Check reads the record in a message and returns its fault. A record of a later version,
// or of a kind that this program does not know, has none.
func Check(m engine.Message) error {
	err := decode(m)
	if errors.Is(err, job.ErrNewer) {
		return nil
	}
	return err
}

func decode(m engine.Message) (err error) {
	id := engine.LastToken(m.Subject)
	switch m.Stream {
	case engine.Jobs:
		_, err = DecodeJob(id, m.Data)
	case engine.Outcomes, engine.Dead:
		_, err = DecodeEnd(id, m.Data) // the job within may be damaged: that may be why it was buried
	case engine.State:
		for prefix, decode := range stateKinds {
			if strings.HasPrefix(m.Subject, prefix) {
				return decode(m)
			}
		}
	}
	return err
}

// stateKinds are the kinds of records in the stream State.
var stateKinds = map[string]func(m engine.Message) error{
	"key.":       func(m engine.Message) error { _, err := DecodeKey(m.Subject, m.Data); return err },
	"try.":       func(m engine.Message) error { _, err := DecodeTries(engine.LastToken(m.Subject), m.Data); return err },
	"live.":      func(m engine.Message) error { _, err := DecodeEnd(engine.LastToken(m.Subject), m.Data); return err },
	CronSubjects: func(m engine.Message) error { _, err := DecodeSchedule(nameOf(m), m.Data); return err },
	TickSubjects: func(m engine.Message) error { _, err := DecodeTick(nameOf(m), m.Data); return err },
	"set.batch.": func(m engine.Message) error { _, err := DecodeBatch(m); return err },
	"set.bend.":  func(m engine.Message) error { _, _, err := DecodeChunk(m.Subject, m.Data); return err },
	"set.lim.":   func(m engine.Message) error { _, _, err := DecodeLimits(m.Subject, m.Data); return err },
	"set.slot.":  func(m engine.Message) error { _, err := DecodeSlots(m.Subject, m.Data); return err },
}

func nameOf(m engine.Message) string { return ScheduleName(engine.LastToken(m.Subject)) }
