package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
)

// statusError reads what /v1/status says of the last reload.
func (n *node) statusError() string {
	n.t.Helper()
	var s struct {
		Error string `json:"reload_error"`
	}
	if err := json.Unmarshal([]byte(n.want(http.StatusOK, http.MethodGet, "/v1/status", "").body), &s); err != nil {
		n.t.Fatal(err)
	}
	return s.Error
}

// TestReloadEmptied shows that a file which has become empty takes no pools away, and
// one that says so does.
func TestReloadEmptied(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", ""))
	for _, pools := range [][]string{nil, {"  # none\n"}} {
		n.write(pools...)
		a := n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/reload", "")
		if !strings.Contains(a.body, "write `pools: {}` to remove them all") {
			t.Errorf("it says %s", a.body)
		}
		n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run", "x")
	}
	if says := n.statusError(); !strings.Contains(says, "pools: there are no pools, but there were 1") {
		t.Errorf("the status says %q of the reload that failed", says)
	}
	n.mu.Lock()
	n.text = base + "pools: {}\n"
	n.mu.Unlock()
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	n.want(http.StatusNotFound, http.MethodPost, "/v1/pools/one/run", "x")
	if says := n.statusError(); says != "" {
		t.Errorf("the status says %q of a reload that went well", says)
	}
}

// TestReloadHangs shows that a configuration which cannot be read holds up nothing
// but reloads: those wait as long as they like, and the daemon ends.
func TestReloadHangs(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", ""))
	n.hang, n.tries = make(chan struct{}), make(chan struct{}, 8)
	first := make(chan error, 1)
	go func() { // ends with the daemon; waited for below
		_, err := n.Reload(context.Background())
		first <- err
	}()
	<-n.tries // it is being read
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := n.Reload(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second reload: %v, want that its time is over", err)
	}
	n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run", "x")
	n.Stop()
	if err := n.wait(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := <-first; !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("the first reload: %v, want ErrClosed", err)
	}
	if len(n.tries) > 0 {
		t.Error("the configuration was read twice at a time")
	}
	close(n.hang)
	eventually(t, "the reading has ended", func() bool { return len(n.turn) == 0 })
}

// TestReloadGivenUp shows that whoever gives up a reload whose file cannot be read
// changes nothing, and that the next one waits for its turn.
func TestReloadGivenUp(t *testing.T) {
	t.Parallel()
	n := start(t, telling(t, "one", "old", ""))
	n.write(telling(t, "one", "new", ""))
	n.hang, n.tries = make(chan struct{}), make(chan struct{}, 8)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { // ends by cancel; waited for below
		_, err := n.Reload(ctx)
		given <- err
	}()
	<-n.tries
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("a reload that was given up: %v", err)
	}
	next := make(chan error, 1)
	go func() { // ends with the reload; waited for below
		_, err := n.Reload(t.Context())
		next <- err
	}()
	close(n.hang)
	if err := <-next; err != nil {
		t.Errorf("the next reload: %v", err)
	}
	if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run?task=tell", ""); a.body != "new" {
		t.Errorf("it says %q", a.body)
	}
}

// TestIDsOfJobs shows that an ephemeral task may not have the id of a job that runs,
// and that nobody takes the one for the other.
func TestIDsOfJobs(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 1}"), mine(t, "two", "workers: {min: 1, max: 1}"))
	if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/two/run", "x"); !strings.HasPrefix(a.header.Get("Bullpen-Task"), "run-") {
		t.Errorf("the id %q may be that of a job", a.header.Get("Bullpen-Task"))
	}
	flag := t.TempDir() + "/go"
	first := n.background("/v1/pools/one/jobs?task=hold&wait=1m", flag)
	eventually(t, "the first job runs", func() bool { return exists(flag + ".begun") })
	ref := n.want(http.StatusAccepted, http.MethodPost, "/v1/pools/one/jobs?task=hold", flag)
	var job struct{ ID string }
	if err := json.Unmarshal([]byte(ref.body), &job); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir() + "/go"
	b, ended := backend{n.Daemon}, make(chan error, 1)
	go func() { // ends with the task; waited for below
		_, _, err := b.Run(t.Context(), "two", bullpen.Task{ID: job.ID, Name: "hold", Payload: []byte(other)}) // the job waits, so the id is free
		ended <- err
	}()
	eventually(t, "the task runs", func() bool { return exists(other + ".begun") })
	if feed := b.Follow(job.ID, live.Position{}); feed != nil {
		feed.Close()
		t.Error("who follows the job receives events of the ephemeral task")
	}
	if _, _, err := b.Run(t.Context(), "two", bullpen.Task{ID: job.ID}); !errors.Is(err, api.ErrBusyID) {
		t.Errorf("a second task of that id: %v, want ErrBusyID", err)
	}
	touch(t, flag)
	if a := first.wait(); a.body != "held" {
		t.Errorf("the first job: %d %s", a.status, a.body)
	}
	if a := n.want(http.StatusOK, http.MethodGet, "/v1/jobs/"+job.ID+"/result?wait=1m", ""); a.body != "held" {
		t.Errorf("the job with the id that a task had: %s", a.body)
	}
	touch(t, other)
	if err := <-ended; err != nil {
		t.Errorf("the ephemeral task: %v", err)
	}
}

// TestTakeOverHangs shows that Close ends the daemon although a configuration is
// being taken over without end.
func TestTakeOverHangs(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1}"))
	n.reloading <- struct{}{}
	n.Stop()
	n.Close()
	if err := n.wait(); !errors.Is(err, ErrAborted) {
		t.Errorf("Run = %v, want ErrAborted", err)
	}
}
