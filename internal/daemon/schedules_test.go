package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/api"
)

// planned gives the schedules of a daemon by their names.
func (n *node) planned() map[string]api.Schedule {
	n.t.Helper()
	var all api.Schedules
	if err := json.Unmarshal([]byte(n.want(http.StatusOK, http.MethodGet, "/v1/schedules", "").body), &all); err != nil {
		n.t.Fatal(err)
	}
	by := make(map[string]api.Schedule)
	for _, s := range all.Schedules {
		by[s.Name] = s
	}
	return by
}

// TestSchedules has schedules in the configuration: they fire, a reload changes
// them, and callers do not.
func TestSchedules(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", ""), "schedules:\n  fast: {pool: one, every: 100ms, payload: hello}\n  slow: {pool: one, cron: '@yearly', task: tell}\n")
	eventually(t, "it fires", func() bool { return n.planned()["fast"].Fired >= 2 })
	by := n.planned()
	fast := by["fast"]
	if fast.Origin != "config" || fast.Job.Task != "echo" || by["slow"].Job.Task != "tell" {
		t.Errorf("they are %+v %+v and %+v", fast, fast.Job, by["slow"].Job)
	}
	if a := n.want(http.StatusOK, http.MethodGet, "/v1/jobs/"+fast.LastJob+"/result?wait=20s", ""); a.body != "hello" {
		t.Errorf("its job gives %q", a.body)
	}
	if a := n.want(http.StatusConflict, http.MethodDelete, "/v1/schedules/fast", ""); cause(t, a) != "managed" {
		t.Errorf("removing it gives %s", a.body)
	}
	n.want(http.StatusOK, http.MethodPut, "/v1/schedules/mine", `{"pool":"one","every":3600}`)
	n.want(http.StatusOK, http.MethodPost, "/v1/schedules/slow/pause", "")

	n.write(mine(t, "one", ""), "schedules:\n  slow: {pool: one, cron: '@daily'}\n  new: {pool: one, every: 1h}\n")
	a := n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	for _, key := range []string{"schedules.fast", "schedules.new", "schedules.slow.cron"} {
		if !strings.Contains(a.body, key) {
			t.Errorf("%s is not among what has changed: %s", key, a.body)
		}
	}
	by = n.planned()
	if s := by["slow"]; len(by) != 3 || s.Cron != "@daily" || !s.Paused || by["mine"].Origin != "" || by["new"].Every != 3600 {
		t.Errorf("they are %+v", by)
	}

	n.write(mine(t, "one", ""), "schedules: {}\n")
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	by = n.planned()
	if _, there := by["mine"]; !there || len(by) != 1 {
		t.Errorf("they are %+v", by)
	}
}

// TestSchedulesAreCompleted has schedules of the configuration whose jobs leave to the
// pool who is told of their death and how their group is found.
func TestSchedulesAreCompleted(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "retry: {bury: told}, groups: {meta: tenant}"), "schedules:\n  weekly: {pool: one, cron: '@weekly', meta: {tenant: acme}}\n")
	if j := n.planned()["weekly"].Job; j.Bury != "told" || j.Group != "acme" {
		t.Errorf("its job is told of by %q and has the group %q, want told and acme", j.Bury, j.Group)
	}
}
