package queue

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

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
		Retry: job.Retry{Attempts: -1, Crashes: 1 << 20, Nodes: -2, Backoff: -1, On: []bullpen.Outcome{bullpen.OK, bullpen.Canceled, bullpen.Lost, 77}},
		Keep:  job.Keep{Jobs: -1},
	}
	if n := faults(t, bad.check()); n != 14 {
		t.Errorf("%d faults are reported of 14: %v", n, bad.check())
	}
	if _, err := Open(t.Context(), bad); err == nil {
		t.Error("a queue opens with it")
	}
	for name, c := range map[string]Config{
		"negative lease":       {Lease: -1},
		"MaxResult":            {MaxResult: -1},
		"MaxBackoff":           {Retry: job.Retry{MaxBackoff: -1}},
		"Keep.Outcomes":        {Keep: job.Keep{Outcomes: -1}},
		"Keep.OutcomeCount":    {Keep: job.Keep{OutcomeCount: -1}},
		"Keep.OutcomeAge":      {Keep: job.Keep{OutcomeAge: -1}},
		"Keep.Dead":            {Keep: job.Keep{Dead: -1}},
		"Keep.DeadAge":         {Keep: job.Keep{DeadAge: -1}},
		"Keep.LineBytes":       {Keep: job.Keep{LineBytes: -1}},
		"too many attempts":    {Retry: job.Retry{Attempts: 1<<16 + 1}},
		"a namespace too long": {Namespace: strings.Repeat("x", job.LongestToken+1)},
	} {
		c.Store = Memory()
		if c.check() == nil {
			t.Errorf("%s: no fault is reported", name)
		}
	}
	good := Config{Store: Memory()}
	if err := errors.Join(good.check(), good.withDefaults().check()); err != nil {
		t.Errorf("the zero value with a store: %v", err)
	}
	for _, field := range openFields(reflect.ValueOf(good.withDefaults()), "") {
		if field != "Logger" && field != "Ended" && field != "Refuse" {
			t.Errorf("%s has no default", field)
		}
	}
}

func TestWorkConfigTellsAllFaults(t *testing.T) {
	t.Parallel()
	if n := faults(t, WorkConfig{Queue: "A", Concurrency: -1}.check()); n != 2 {
		t.Errorf("%d faults are reported of 2", n)
	}
	q := openOn(t, Config{})
	if err := q.Work(t.Context(), submit(nil), WorkConfig{Queue: "A"}); err == nil {
		t.Error("Work begins with a queue that is none")
	}
	if err := q.Work(t.Context(), nil, WorkConfig{}); err == nil {
		t.Error("Work begins without an executor")
	}
}

// openFields lists the fields of a struct that have their zero value.
func openFields(v reflect.Value, path string) []string {
	var found []string
	for i := range v.NumField() {
		f, name := v.Field(i), path+v.Type().Field(i).Name
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		switch {
		case f.IsZero():
			found = append(found, name)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			found = append(found, openFields(f, name+".")...)
		}
	}
	return found
}
