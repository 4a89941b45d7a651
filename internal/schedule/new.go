package schedule

import (
	"errors"
	"fmt"
	"time"
)

// New returns the rule of a schedule: a cron rule in the zone with a name or, if every is
// not 0, ticks of that period, counted from anchor. load is [Zone], or a cache of its
// results. The error combines the faults of the cron rule and of the zone.
func New(cron string, every time.Duration, zone string, anchor time.Time, load func(string) (*time.Location, error)) (*Rule, error) {
	if every != 0 {
		r, err := Every(every, anchor)
		if err != nil {
			return nil, fmt.Errorf("Every: %w", err)
		}
		return r, nil
	}
	z, wrong := load(zone)
	if wrong != nil {
		z = time.UTC
	}
	r, err := Cron(cron, z)
	if err != nil {
		err = fmt.Errorf("Cron: %w", err)
	}
	if err := errors.Join(wrong, err); err != nil {
		return nil, err
	}
	return r, nil
}

// Zone returns the time zone with a name, such as "Europe/Berlin"; empty is UTC.
func Zone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`Zone is "Local", which is another on each machine: name it, such as "Europe/Berlin"`)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("Zone %q is not known (%w): use a name such as \"Europe/Berlin\" or \"UTC\"; "+
			"if it is one, this machine has no zones: import time/tzdata, or install the package tzdata", name, err)
	}
	return z, nil
}
