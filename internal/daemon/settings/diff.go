package settings

import (
	"maps"
	"reflect"
	"slices"

	"github.com/bullpen-run/bullpen/process"
)

// Diff lists the paths of the keys that differ between old and s, in order. A pool
// that was added or removed is listed by its own path.
func (s *Settings) Diff(old *Settings) []string { return s.differ(old, true) }

// Restart lists the paths of Diff that take effect only after a restart, not after a
// reload.
func (s *Settings) Restart(old *Settings) []string { return s.differ(old, false) }

func (s *Settings) differ(old *Settings, all bool) []string {
	var paths []string
	a, b := s.whole(), old.whole()
	for _, k := range daemonTable.keys {
		if (all || !k.live) && !k.same(&a, &b) {
			paths = append(paths, k.path)
		}
	}
	if !all {
		return paths
	}
	names := make(map[string]bool)
	for _, pools := range []map[string]Pool{s.Pools, old.Pools} {
		for name := range pools {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, here := s.Pools[name]
		y, there := old.Pools[name]
		if here != there {
			paths = append(paths, "pools."+name)
		} else {
			paths = append(paths, x.diff(&y, "pools."+name)...)
		}
	}
	return append(paths, s.diffSchedules(old)...)
}

// whole returns s without nil pointers, so that its fields can be compared.
func (s *Settings) whole() Settings {
	w := *s
	if w.Budget == nil {
		w.Budget = new(process.BudgetConfig)
	}
	return w
}

func (p *Pool) diff(old *Pool, at string) []string {
	if reflect.DeepEqual(p, old) {
		return nil
	}
	var paths []string
	for _, k := range poolTable.keys {
		if k.path != "sandbox" && !k.same(p, old) { // sandbox.profile is the same field
			paths = append(paths, at+"."+k.path)
		}
	}
	if len(paths) == 0 {
		return []string{at}
	}
	return paths
}
