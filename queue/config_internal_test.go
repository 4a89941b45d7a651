package queue

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "default", "image-resize_2", "0", strings.Repeat("x", longestToken)} {
		if err := checkToken("Queue", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "a.b", "a b", "a*", ">", "ä", "a/b", "\x00", "\xff", "a\n", strings.Repeat("x", longestToken+1)} {
		err := checkToken("Queue", bad)
		if err == nil || !strings.HasPrefix(err.Error(), "Queue ") || !strings.Contains(err.Error(), "use ") {
			t.Errorf("%q: %v, want an error that says what to use", bad, err)
		}
	}
}

// faults counts the faults that an error has joined, and checks that each says
// what to do.
func faults(t *testing.T, err error) int {
	t.Helper()
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return 0
	}
	n := 0
	for _, e := range all.Unwrap() {
		var inner interface{ Unwrap() []error }
		if errors.As(e, &inner) {
			n += faults(t, e)
			continue
		}
		n++
		if text := e.Error(); !strings.Contains(text, "use ") && !strings.Contains(text, "set one") && !strings.Contains(text, "say where") && !strings.Contains(text, "leave it out") && !strings.Contains(text, "put the data") && !strings.Contains(text, "unknown") {
			t.Errorf("%q does not say what to do", text)
		}
	}
	return n
}

func TestConfigTellsAllFaults(t *testing.T) {
	t.Parallel()
	bad := Config{
		Namespace: "A.b", Lease: time.Millisecond, KeyWindow: -1, MaxPayload: -1,
		Retry: Retry{Attempts: -1, Crashes: 1 << 20, Nodes: -2, Backoff: -1, On: []bullpen.Outcome{bullpen.OK, bullpen.Canceled, bullpen.Lost, 77}},
		Keep:  Keep{Jobs: -1},
	}
	if n := faults(t, bad.check()); n != 14 {
		t.Errorf("%d faults are told of 14: %v", n, bad.check())
	}
	if _, err := Open(t.Context(), bad); err == nil {
		t.Error("a queue opens with it")
	}
	for name, c := range map[string]Config{
		"negative lease":       {Lease: -1},
		"MaxResult":            {MaxResult: -1},
		"MaxBackoff":           {Retry: Retry{MaxBackoff: -1}},
		"Keep.Outcomes":        {Keep: Keep{Outcomes: -1}},
		"Keep.OutcomeCount":    {Keep: Keep{OutcomeCount: -1}},
		"Keep.OutcomeAge":      {Keep: Keep{OutcomeAge: -1}},
		"Keep.Dead":            {Keep: Keep{Dead: -1}},
		"Keep.DeadAge":         {Keep: Keep{DeadAge: -1}},
		"Keep.LineBytes":       {Keep: Keep{LineBytes: -1}},
		"too many attempts":    {Retry: Retry{Attempts: largestAttempts + 1}},
		"a namespace too long": {Namespace: strings.Repeat("x", longestToken+1)},
	} {
		c.Store = Memory()
		if c.check() == nil {
			t.Errorf("%s: no fault is told", name)
		}
	}
	good := Config{Store: Memory()}
	if err := errors.Join(good.check(), good.withDefaults().check()); err != nil {
		t.Errorf("the zero value with a store: %v", err)
	}
	for _, field := range unset(reflect.ValueOf(good.withDefaults()), "") {
		if field != "Logger" && field != "Ended" && field != "Refuse" {
			t.Errorf("%s has no default", field)
		}
	}
}

func TestJobTellsAllFaults(t *testing.T) {
	t.Parallel()
	config := Config{Store: Memory(), MaxPayload: 10}.withDefaults()
	meta := map[string]string{"large": strings.Repeat("x", metaBytes)}
	bad := Job{
		Queue: "A", Name: strings.Repeat("x", longestName+1), Key: strings.Repeat("x", longestKey+1), Payload: make([]byte, 11),
		Priority: priorities, Delay: -1, At: now, Meta: meta, Limits: bullpen.Limits{Timeout: -1, Memory: -1, CPU: -1, Output: -1},
		Retry: Retry{Attempts: -1, On: []bullpen.Outcome{bullpen.OK}},
	}
	err := bad.check(&config)
	if n := faults(t, err); n != 14 {
		t.Errorf("%d faults are told of 14: %v", n, err)
	}
	many := map[string]string{}
	for i := range mostMeta + 1 {
		many[string(rune('a'+i))] = ""
	}
	for name, j := range map[string]Job{
		"Compensate too long": {Compensate: strings.Repeat("x", longestName+1)},
		"too many keys":       {Meta: many},
		"Delay and At":        {Delay: 1, At: now},
	} {
		if j.check(&config) == nil {
			t.Errorf("%s: no fault is told", name)
		}
	}
	good := Job{
		Name: strings.Repeat("x", longestName), Key: strings.Repeat("x", longestKey), Payload: make([]byte, 10), Priority: Low,
		Deadline: now, Retry: Retry{Attempts: largestAttempts},
	}
	if err := good.check(&config); err != nil {
		t.Errorf("a job at its bounds: %v", err)
	}
	if err := (&Job{}).check(&config); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

func TestWorkConfigTellsAllFaults(t *testing.T) {
	t.Parallel()
	if n := faults(t, WorkConfig{Queue: "A", Concurrency: -1}.check()); n != 2 {
		t.Errorf("%d faults are told of 2", n)
	}
	q := openOn(t, Config{})
	if err := q.Work(t.Context(), submit(nil), WorkConfig{Queue: "A"}); err == nil {
		t.Error("Work begins with a queue that is none")
	}
	if err := q.Work(t.Context(), nil, WorkConfig{}); err == nil {
		t.Error("Work begins without an executor")
	}
}
