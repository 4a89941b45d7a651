package record

import (
	"errors"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// messages has one message of each kind.
func messages() (all []engine.Message) {
	add := func(s engine.Stream, subject string, data []byte) {
		all = append(all, engine.Message{Stream: s, Subject: subject, Data: data})
	}
	j, e, tries, tick := allOfJob(), allOfEnding(), allOfTries(), allOfTick()
	j.ID, e.ID = fuzzID, fuzzID
	add(engine.Jobs, "job.default.normal."+fuzzID, j.Encode())
	add(engine.Jobs, "at."+fuzzID, j.Encode())
	add(engine.Outcomes, "out."+fuzzID, e.Encode())
	add(engine.Dead, "dead.default."+fuzzID, e.Encode())
	key := KeySubject("default", "a key")
	add(engine.State, key, Key{ID: fuzzID}.Encode(key))
	add(engine.State, "try."+fuzzID, tries.Encode(fuzzID))
	add(engine.State, "live."+fuzzID, e.Encode())
	schedule := allOfSchedule()
	token := ScheduleToken(schedule.Name)
	add(engine.State, CronSubjects+token, schedule.Encode())
	add(engine.State, TickSubjects+token, tick.Encode(schedule.Name))
	add(engine.State, BatchSubject(fuzzID), allOfBatch().Encode())
	bits := BitsSubject(fuzzID, 3, "run")
	add(engine.State, bits, allOfChunk().Encode(bits, stamp(1)))
	limits := LimitsSubject("default", "a group")
	add(engine.State, limits, EncodeLimits(limits, "a group", job.GroupLimits{Concurrency: 3}))
	slots := Slots{Nodes: []Slot{{Node: "a", Count: 2}}}
	slot := "set.slot.default." + GroupToken("a group")
	add(engine.State, slot, slots.Encode(slot))
	return all
}

// TestCheck reads a record of each kind, each with one bit that is another.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		if err := Check(m); err != nil {
			t.Errorf("%s: %v", m.Subject, err)
		}
		for i := range len(m.Data) {
			m.Data[i] ^= 4
			if err := Check(m); i > 0 && !errors.Is(err, job.ErrDamaged) {
				t.Errorf("%s with another byte %d: %v", m.Subject, i, err)
			}
			m.Data[i] ^= 4
		}
		m.Data[0] = Version + 1
		if err := Check(m); err != nil {
			t.Errorf("%s of a later version: %v", m.Subject, err)
		}
	}
	if err := Check(engine.Message{Stream: engine.State, Subject: "set.later.x", Data: []byte("of another kind")}); err != nil {
		t.Errorf("a record of a kind that this program does not know: %v", err)
	}
}
