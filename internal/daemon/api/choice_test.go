package api

import (
	"net/http"
	"slices"
	"testing"
)

// TestListsChooseByOrigin has jobs of a group, a schedule and a batch, and finds each
// by where it comes from, alive and dead, one and many at once.
func TestListsChooseByOrigin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	waits := s.submit("delay=9h&group=Acme-7", "")
	other := s.submit("delay=9h&group=Acme", "")
	dead := s.submit("task=fail&group=Acme-7", "")
	s.ended(dead)
	s.want(http.StatusOK, "PUT", "/v1/schedules/nightly", `{"pool":"far","every":3600,"job":{"group":"Night"}}`)
	ticked := decode[Ref](t, s.want(http.StatusAccepted, "POST", "/v1/schedules/nightly/run", "")).ID
	batch := decode[Batch](t, s.do("POST", "/v1/batches", `{"jobs":[{"pool":"main","task":"echo","delay":"8h"}]}`)).ID
	members := decode[listPage](t, s.do("GET", "/v1/batches/"+batch+"/jobs", "")).Jobs
	if len(members) != 1 {
		t.Fatalf("the members of the batch are %+v, want one", members)
	}
	member := members[0].ID
	for path, want := range map[string][]string{
		"/v1/jobs?group=Acme-7":                 {waits, dead},
		"/v1/jobs?group=Acme":                   {other},
		"/v1/jobs?group=acme":                   nil,
		"/v1/jobs?group=Acme-7&state=scheduled": {waits},
		"/v1/jobs?search=acme-7":                {waits, dead},
		"/v1/jobs?schedule=nightly":             {ticked},
		"/v1/jobs?schedule=daily":               nil,
		"/v1/jobs?batch=" + batch:               {member},
		"/v1/jobs?group=Night&schedule=nightly": {ticked},
		"/v1/dead?group=Acme-7":                 {dead},
		"/v1/dead?group=Acme":                   nil,
		"/v1/dead?schedule=nightly":             nil,
	} {
		if got := s.idsOf(path); !slices.Equal(got, want) {
			t.Errorf("%s gives %v, want %v", path, got, want)
		}
	}
	if c := decode[Causes](t, s.do("GET", "/v1/dead/causes?group=Acme-7", "")); len(c.Causes) != 1 || c.Causes[0].Sample != dead {
		t.Errorf("the causes of a group are %+v", c)
	}
	for _, c := range []struct{ path, body, id string }{
		{"/v1/jobs/cancel", `{"group":"Acme"}`, other},
		{"/v1/jobs/cancel", `{"schedule":"nightly"}`, ticked},
		{"/v1/jobs/cancel", `{"batch":"` + batch + `"}`, member},
		{"/v1/dead/remove", `{"group":"Acme-7"}`, ""},
	} {
		if m := decode[Many](t, s.want(http.StatusOK, "POST", c.path, c.body)); m.Count != 1 || m.More || len(m.Failed) > 0 {
			t.Errorf("%s of %s answers %+v, want one", c.path, c.body, m)
		}
		if c.id != "" && s.ended(c.id).State != "canceled" {
			t.Errorf("%s was not canceled", c.id)
		}
	}
	if got := s.idsOf("/v1/jobs?state=scheduled"); !slices.Equal(got, []string{waits}) {
		t.Errorf("left are %v, want %s", got, waits)
	}
}

// TestListsChooseByEnd selects jobs by their states and by how they have ended.
func TestListsChooseByEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	waits := s.submit("delay=9h&group=Acme-7", "")
	dead := s.submit("task=fail&group=Acme-7", "")
	s.ended(dead)
	why := decode[Causes](t, s.do("GET", "/v1/dead/causes?group=Acme-7", "")).Causes
	if len(why) != 1 || why[0].Sample != dead {
		t.Fatalf("the causes of a group are %+v", why)
	}
	for path, want := range map[string][]string{
		"/v1/jobs?group=Acme-7&state=queued,scheduled,dead":       {waits, dead},
		"/v1/jobs?group=Acme-7&state=queued,dead,dead":            {dead},
		"/v1/jobs?group=Acme-7&state=scheduled,dead&order=newest": {dead, waits},
		"/v1/jobs?group=Acme-7&state=running,canceled":            nil,
		"/v1/jobs?group=Acme-7&outcome=failed":                    {dead},
		"/v1/jobs?group=Acme-7&outcome=ok":                        nil,
		"/v1/jobs?group=Acme-7&reason=" + why[0].Reason:           {dead},
		"/v1/jobs?group=Acme-7&reason=canceled":                   nil,
		"/v1/jobs?group=Acme-7&cause=" + why[0].Cause:             {dead},
	} {
		if got := s.idsOf(path); !slices.Equal(got, want) {
			t.Errorf("%s gives %v, want %v", path, got, want)
		}
	}
	for _, bad := range []string{"batch=a%20b", "state=queued,asleep", "state=", "state=queued,", "reason=newer", "outcome=sad", "cause=x"} {
		if r := s.do("GET", "/v1/jobs?"+bad, ""); r.status != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", bad, r.status)
		}
	}
}
