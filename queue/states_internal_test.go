package queue

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/job-states.md from the tables")

// TestStatesDocument keeps docs/job-states.md equal to the tables in the code.
func TestStatesDocument(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"job": jobStates.Check(Scheduled, Queued), "attempt": attemptStates.Check(attemptTaken), "batch": batchStates.Check(BatchOpen),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := "# States of a job\n\n" +
		"Printed from the tables in package queue by its tests (`go test ./queue -run States -update`).\n" +
		"A move that is not listed is refused.\n\n" +
		"## Job\n\nA job begins as scheduled, when it has a time, or as queued. Each move is one stored message, so a job\n" +
		"is in the state in which a crash has found it. `running` goes back to `queued` when its node died or\n" +
		"could not start it; the outcome is stored before the job leaves its queue.\n\n" +
		jobStates.Markdown() +
		"\n## Job in the hands of a node\n\nFrom its delivery to its answer. From `storing` on it holds no worker: what has become of it is on its\n" +
		"way to the disk. When the node dies before `answered`, another gets the job after its lease,\nor the next start of the node where the store is a folder of its own.\n\n" +
		attemptStates.Markdown() +
		"\n## Batch\n\nEach move is one conditioned message. A batch that is `canceled` has ended when all its members have.\n\n" +
		batchStates.Markdown()
	file := filepath.Join("..", "docs", "job-states.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/job-states.md is not what the tables say; run go test ./queue -run States -update")
	}
}

// TestWordsOfStates has every state and priority told and read again.
func TestWordsOfStates(t *testing.T) {
	t.Parallel()
	for s := Scheduled; s <= Canceled; s++ {
		if got, err := ParseState(s.String()); got != s || err != nil {
			t.Errorf("%v is read as %v, %v", s, got, err)
		}
		if final := len(jobStates.Moves[s]) == 0; s.Ended() != final {
			t.Errorf("%v: Ended is %v, and the table says %v", s, s.Ended(), final)
		}
	}
	for p := range Priority(priorities) {
		if got, err := ParsePriority(p.String()); got != p || err != nil {
			t.Errorf("%v is read as %v, %v", p, got, err)
		}
	}
	if _, err := ParseState("asleep"); err == nil {
		t.Error("asleep is a state")
	}
	if _, err := ParsePriority("urgent"); err == nil {
		t.Error("urgent is a priority")
	}
	if s := State(99).String() + Priority(99).String() + EventKind(99).String(); s == "" {
		t.Error("numbers that are none say nothing")
	}
	for k := Redelivered; k <= StoreFailed; k++ {
		if k.String() == "" {
			t.Errorf("event %d has no words", k)
		}
	}
}
