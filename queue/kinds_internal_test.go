package queue

import "github.com/bullpen-run/bullpen/job"

func kinds(f *Feed) (all []job.EventKind) {
	for e := range f.C {
		all = append(all, e.Kind)
	}
	return all
}
