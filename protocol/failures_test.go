package protocol_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

// TestOutcomesOfWorkers compares what CheckToHost lets through with
// failures.json.
func TestOutcomesOfWorkers(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("vectors/failures.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Outcomes []struct {
			Number uint16
			Word   string
			Sends  bool `json:"worker_sends"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Outcomes) != 10 {
		t.Errorf("there are %d outcomes, want 10", len(file.Outcomes))
	}
	for _, o := range file.Outcomes {
		err := protocol.CheckToHost(protocol.Header{Kind: protocol.Error, Code: o.Number, ID: 1}, nil)
		if (err == nil) != o.Sends {
			t.Errorf("outcome %s (%d) from a worker: %v", o.Word, o.Number, err)
		}
	}
}
