package api

import (
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

func TestSetGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const path = "/v1/pools/main/groups"
	if g := decode[groupsAnswer](t, s.do("PUT", path+"?group=acme", `{"concurrency":2,"rate":0.5}`)); len(g.Groups) != 1 || g.Groups[0].Limits != (GroupLimits{2, 0.5, 0}) {
		t.Errorf("set, the groups are %+v", g)
	}
	for body, says := range map[string]string{
		"":             "at least one of concurrency, rate and burst",
		"{}":           "at least one of concurrency, rate and burst",
		`{"rate":"5"}`: "use a number of jobs a second without quotes",
		`{"limit":1}`:  `there is no field "limit"`,
		`{"burst":3}`:  "Burst is set without Rate",
	} {
		if p := isProblem(t, s.do("PUT", path+"?group=acme", body), problem.BadRequest); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %q is not in %q", body, says, p.Detail)
		}
	}
	isProblem(t, s.do("PUT", path+"?group=", `{"rate":1}`), problem.BadRequest)
	if g := decode[groupsAnswer](t, s.do("GET", path, "")); g.Groups[0].Limits != (GroupLimits{2, 0.5, 0}) {
		t.Errorf("after faults the groups are %+v", g)
	}
	if g := decode[groupsAnswer](t, s.do("DELETE", path+"?group=acme", "")); len(g.Groups) != 0 {
		t.Errorf("taken back, the groups are %+v", g)
	}
}
