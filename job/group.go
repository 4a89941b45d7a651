package job

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// GroupLimits bound the jobs of one group of a queue. The zero value is no limit.
type GroupLimits struct {
	// Concurrency is the largest number of jobs of the group that run at the same time,
	// on all nodes and of all priorities together. 0: no limit.
	Concurrency int `json:"concurrency"`
	// Rate is the largest number of jobs that start in a second, on average. 0: no
	// limit. Burst is how many may start at once after a pause; 0 is Rate, at least 1.
	Rate  float64 `json:"rate"`
	Burst int     `json:"burst"`
}

const (
	mostConcurrency = 1 << 20
	mostRate        = 1e6
	leastRate       = 1.0 / (24 * 3600)
	longestGroup    = 256
)

// Check reports all faults of l at once.
func (l GroupLimits) Check() error {
	var errs []error
	if l.Concurrency < 0 || l.Concurrency > mostConcurrency {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use a number from 1 to %d, or 0 for no limit", l.Concurrency, mostConcurrency))
	}
	if l.Rate != 0 && !(l.Rate >= leastRate && l.Rate <= mostRate) {
		errs = append(errs, fmt.Errorf("Rate is %v jobs a second: use one from %.3g (one a day) to %.0f, or 0 for no limit", l.Rate, leastRate, mostRate))
	}
	if l.Burst < 0 || l.Burst > mostConcurrency {
		errs = append(errs, fmt.Errorf("Burst is %d: use a number from 1 to %d, or 0 for as many as begin in a second", l.Burst, mostConcurrency))
	}
	if l.Burst > 0 && l.Rate == 0 {
		errs = append(errs, errors.New("Burst is set without Rate: set both, or none"))
	}
	return errors.Join(errs...)
}

// AtOnce returns how many jobs may start at once: Burst, or its default.
func (l GroupLimits) AtOnce() float64 {
	if l.Burst > 0 {
		return float64(l.Burst)
	}
	return max(1, math.Ceil(l.Rate))
}

// CheckGroup reports what is wrong with the name of a group.
func CheckGroup(group string) error {
	if len(group) > longestGroup {
		return fmt.Errorf("Group has %d bytes: use %d at most, for example a hash of it", len(group), longestGroup)
	}
	return nil
}

// String describes the limits in words.
func (l GroupLimits) String() string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", l.Concurrency))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g a second, %g at once", l.Rate, l.AtOnce()))
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

// GroupInfo describes a group of a queue.
type GroupInfo struct {
	Group string `json:"group"`
	// Waiting jobs can start when it is their turn and the limits allow it. Running
	// ones are in the hands of this node.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// Oldest is when the oldest waiting job was stored; zero if none waits.
	Oldest time.Time `json:"oldest,omitzero"`
	// Limits are in force for the group. Own reports whether they were set for it.
	Limits GroupLimits `json:"limits"`
	Own    bool        `json:"own"`
}
