package run

import (
	"os"
	"strings"
	"testing"
)

// TestStatesOfAttempts keeps docs/job-states.md equal to the table in the code.
func TestStatesOfAttempts(t *testing.T) {
	t.Parallel()
	if err := attemptStates.Check(attemptTaken); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile("../../../docs/job-states.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := attemptStates.Markdown(); !strings.Contains(string(page), want) {
		t.Errorf("docs/job-states.md does not have the table of a job in the hands of a node:\n%s", want)
	}
}
