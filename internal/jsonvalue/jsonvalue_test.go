package jsonvalue_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1.5": 1500 * time.Millisecond, "0": 0, "1e-9": 1, "1e300": math.MaxInt64, "-1e300": math.MinInt64, "0.0000000004": 0,
	} {
		var s jsonvalue.Seconds
		if err := json.Unmarshal([]byte(text), &s); err != nil || time.Duration(s) != want {
			t.Errorf("%s is %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
	var s jsonvalue.Seconds
	if json.Unmarshal([]byte(`"1s"`), &s) == nil {
		t.Error("a text is taken for seconds")
	}
}

func TestTimesAreInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 1, 2, 3, 4000, time.FixedZone("", 3600))
	got, err := json.Marshal(struct {
		Set  jsonvalue.Time `json:"set,omitzero"`
		Zero jsonvalue.Time `json:"zero,omitzero"`
	}{Set: jsonvalue.Time(at)})
	if want := `{"set":"2026-11-22T00:02:03.000004Z"}`; err != nil || string(got) != want {
		t.Errorf("it is %s, %v, want %s", got, err, want)
	}
}

func TestFailureOf(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		name string
		in   bullpen.TaskError
		want *int
	}{
		{"a handler that failed has none", bullpen.TaskError{Outcome: bullpen.Failed}, nil},
		{"killed", bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: -1, Signal: "killed"}, nil},
		{"exited with 3", bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: 3}, code(3)},
		{"exited with 0", bullpen.TaskError{Outcome: bullpen.Crashed}, code(0)},
	} {
		got := jsonvalue.FailureOf(&c.in).ExitCode
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: exit code is %v, want %v", c.name, got, c.want)
		}
	}
	if jsonvalue.FailureOf(nil) != nil {
		t.Error("no failure is a failure")
	}
}
