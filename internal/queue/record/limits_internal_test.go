package record

import (
	"math"
	"reflect"
	"testing"

	"github.com/bullpen-run/bullpen/job"
)

func FuzzLimits(f *testing.F) {
	subject := LimitsSubject("mail", "a")
	type both struct {
		group  string
		limits job.GroupLimits
	}
	fuzzRecord(f, subject, [][]byte{
		EncodeLimits(subject, "a", job.GroupLimits{Concurrency: 3, Rate: 0.5, Burst: 9}), EncodeLimits(subject, "", job.GroupLimits{}),
	}, func(b []byte) (both, error) {
		group, l, err := DecodeLimits(subject, b)
		return both{group, l}, err
	}, func(v both) []byte { return EncodeLimits(subject, v.group, v.limits) }, func(t *testing.T, v both) {
		t.Helper()
		if err := v.limits.Check(); err != nil {
			t.Errorf("limits that are not valid were read: %v", err)
		}
	})
}

func FuzzSlots(f *testing.F) {
	const subject = "set.slot.mail.a"
	s := Slots{Nodes: []Slot{{"n1", 3, 9}, {"n2", 1, 1}}, Tokens: -2.5, At: stamp(1)}
	fuzzRecord(f, subject, [][]byte{s.Encode(subject), new(Slots).Encode(subject)}, func(b []byte) (Slots, error) {
		return DecodeSlots(subject, b)
	}, func(s Slots) []byte { return s.Encode(subject) }, func(t *testing.T, s Slots) {
		t.Helper()
		if math.IsNaN(s.Tokens) || s.Others("") < 0 {
			t.Errorf("%+v was read", s)
		}
	})
}

func TestSlotsKeepAll(t *testing.T) {
	t.Parallel()
	const subject = "set.slot.mail.a"
	want := Slots{Nodes: []Slot{{"n1", 3, 9}, {"n2", 1, 1}}, Tokens: -2.5, At: stamp(1)}
	got, err := DecodeSlots(subject, want.Encode(subject))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	got.Give("n1", 0)
	got.Give("n3", 2)
	got.Give("n2", 4)
	if len(got.Nodes) != 2 || got.Others("n2") != 2 || got.Others("") != 6 {
		t.Errorf("after changes: %+v", got)
	}
}
