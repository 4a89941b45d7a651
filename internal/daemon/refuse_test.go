package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRefusedAtTheDoor wants jobs that a pool cannot run to be refused when they are
// handed in, by each way to do so.
func TestRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "work", "workers: {min: 1, max: 1}"))
	n.want(http.StatusOK, http.MethodPost, "/v1/pools/work/jobs?wait=20s", "x") // now its tasks are known
	for path, body := range map[string]string{
		"/v1/pools/work/jobs?memory=1MiB":         "x",
		"/v1/pools/work/jobs?memory=1MiB&wait=1s": "x",
		"/v1/pools/work/jobs?task=nothing":        "x",
	} {
		if a := n.want(http.StatusUnprocessableEntity, http.MethodPost, path, body); !strings.Contains(a.body, "work") {
			t.Errorf("POST %s says %s, want the name of the pool", path, a.body)
		}
	}
	lines := `{"payload":"a"}` + "\n" + `{"payload":"b","memory":"1MiB"}` + "\n" + `{"payload":"c","then":[{"task":"nothing"}]}` + "\n" + `{"payload":"d"}` + "\n"
	r, err := http.Post(n.url+"/v1/pools/work/bulk", "application/x-ndjson", strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSpace(string(body)), "\n")
	for i, want := range []string{`"id"`, `"cause":"refused"`, `"cause":"unknown-task"`, `"id"`} {
		if i >= len(answers) || !strings.Contains(answers[i], want) {
			t.Errorf("line %d of a bulk was not answered with %s:\n%s", i+1, want, body)
		}
	}
	n.want(http.StatusUnprocessableEntity, http.MethodPut, "/v1/schedules/s", `{"pool":"work","every":"1h","job":{"memory":"1MiB"}}`)
	n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/batches", `{"then":{"pool":"work","task":"nothing"}}`)
}
