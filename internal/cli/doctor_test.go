package cli

import (
	"slices"
	"testing"
)

// What a user namespace lends to the profile strict is not missing.
func TestDoctorLends(t *testing.T) {
	t.Parallel()
	e := &examination{
		Features: []feature{
			{Name: "pid-namespace", Lost: "much"}, {Name: "mount-namespace", Detail: "forbidden", Lost: "files"}, {Name: "ipc-namespace", OK: true, Detail: "may be made"},
		},
		Missing: []string{"pid-namespace", "mount-namespace"},
	}
	e.lend()
	if !slices.Equal(e.Missing, []string{"pid-namespace"}) {
		t.Errorf("%q are missing", e.Missing)
	}
	want := []feature{
		{Name: "pid-namespace", Lost: "much"}, {Name: "mount-namespace", Detail: "forbidden; the profile strict gets it in a user namespace"},
		{Name: "ipc-namespace", OK: true, Detail: "may be made"},
	}
	if !slices.Equal(e.Features, want) {
		t.Errorf("the features are %+v", e.Features)
	}
}
