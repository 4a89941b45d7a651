package archtest

import (
	"slices"
	"strings"
	"testing"
)

// checkRows wants the table to name only what is there: folders with packages, and what
// packages import.
func checkRows(rows []rule, lists map[string][]string, sources []*source) []fault {
	var faults []fault
	named := func(row, folder string) {
		if !slices.ContainsFunc(rows, func(r rule) bool { return r.folder == folder }) {
			faults = append(faults, fault{"rows", row, folder + " has no row: take it out"})
		}
	}
	for _, r := range rows {
		if !slices.ContainsFunc(sources, func(s *source) bool { return s.folder() == r.folder || strings.HasPrefix(s.path, r.folder+"/") }) {
			faults = append(faults, fault{"rows", r.folder, "there is no such package: take its row out"})
		}
		for _, folder := range slices.Concat(r.ours, r.tests) {
			named(r.folder, folder)
		}
		for _, path := range r.theirs {
			if !slices.ContainsFunc(sources, func(s *source) bool { return !s.nested && s.below(path) }) {
				faults = append(faults, fault{"rows", r.folder, "nothing imports " + path + ": take it out"})
			}
		}
	}
	for list, folders := range lists {
		for _, folder := range folders {
			named(list, folder)
		}
	}
	return faults
}

// below reports whether s imports a path, or one below it.
func (s *source) below(path string) bool {
	return slices.ContainsFunc(s.imports(), func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") })
}

func TestRowsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	lists := map[string][]string{"lifecycleBarred": lifecycleBarred, "testingAllowed": testingAllowed, "rawCallsAllowed": rawCallsAllowed, "forTests": forTests.ours}
	report(t, checkRows(rules, lists, checkout(t)), "rows")
}

func TestRowsOfNothingAreFound(t *testing.T) {
	t.Parallel()
	sources := synthetic(t, map[string]string{
		"here/a.go":        "package here\n\nimport \"example.org/used/part\"\n",
		"above/below/b.go": "package below\n",
	})
	rows := []rule{
		{folder: "here", ours: []string{"above", "gone"}, theirs: []string{"example.org/used", "example.org/unused"}},
		{folder: "above", tests: []string{"lost"}},
		{folder: "nowhere"},
	}
	wantFaults(t, checkRows(rows, map[string][]string{"list": {"here", "missing"}}, sources),
		"rows: above: lost has no row", "rows: here: gone has no row", "rows: here: nothing imports example.org/unused",
		"rows: list: missing has no row", "rows: nowhere: there is no such package")
}
