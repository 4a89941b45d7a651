package job

import (
	"errors"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "default", "image-resize_2", "0", strings.Repeat("x", LongestToken)} {
		if err := CheckToken("Queue", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "a.b", "a b", "a*", ">", "ä", "a/b", "\x00", "\xff", "a\n", strings.Repeat("x", LongestToken+1)} {
		err := CheckToken("Queue", bad)
		if err == nil || !strings.HasPrefix(err.Error(), "Queue ") || !strings.Contains(err.Error(), "use ") {
			t.Errorf("%q: %v, want an error that says what to use", bad, err)
		}
	}
}

func TestJobTellsAllFaults(t *testing.T) {
	t.Parallel()
	meta := map[string]string{"large": strings.Repeat("x", metaBytes)}
	bad := Job{
		Queue: "A", Name: strings.Repeat("x", LongestName+1), Key: strings.Repeat("x", longestKey+1),
		Priority: Priorities, Delay: -1, At: time.Unix(1, 0), Meta: meta, Limits: bullpen.Limits{Timeout: -1, Memory: -1, CPU: -1, Output: -1},
		Retry: Retry{Attempts: -1, On: []bullpen.Outcome{bullpen.OK}},
	}
	err := bad.Check()
	if n := faultsOf(err); n != 13 {
		t.Errorf("%d faults are reported of 13: %v", n, err)
	}
	many := map[string]string{}
	for i := range mostMeta + 1 {
		many[string(rune('a'+i))] = ""
	}
	for name, j := range map[string]Job{
		"Compensate too long": {Compensate: strings.Repeat("x", LongestName+1)},
		"too many keys":       {Meta: many},
		"Delay and At":        {Delay: 1, At: time.Unix(1, 0)},
	} {
		if j.Check() == nil {
			t.Errorf("%s: no fault is reported", name)
		}
	}
	good := Job{
		Name: strings.Repeat("x", LongestName), Key: strings.Repeat("x", longestKey), Payload: make([]byte, 10), Priority: Low,
		Deadline: time.Unix(1, 0), Retry: Retry{Attempts: largestAttempts},
	}
	if err := good.Check(); err != nil {
		t.Errorf("a job at its bounds: %v", err)
	}
	if err := (&Job{}).Check(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

// faultsOf counts the faults that an error has joined.
func faultsOf(err error) (n int) {
	if all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		for _, one := range all.Unwrap() {
			n += faultsOf(one)
		}
		return n
	}
	if err != nil {
		n = 1
	}
	return n
}
