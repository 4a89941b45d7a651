package confine

import (
	"fmt"
	"math"
	"strconv"
)

// Weigh sets what all groups together weigh beside what else is in the group of
// the host when processors are scarce: as much as so many processes of the given
// nice value would. Without it a folder of groups weighs as much as one process of
// nice 0, however nice its processes are to each other. weight, where 100 is
// normal and 0 stands for it, is a factor besides, as in Bounds, where it counts
// only among the groups. Where no bound of processors was asked for, it does
// nothing.
func (g *Groups) Weigh(nice, processes, weight int) error {
	for _, t := range g.trees {
		if t.kinds&cpuKind == 0 {
			continue
		}
		shares := sharesOf(nice, processes, weight)
		name, value := "cpu.shares", shares
		if t.v2 {
			const leastWeight, mostWeight = 1, 10_000
			name, value = "cpu.weight", min(max(shares*normalWeight/normalShares, leastWeight), mostWeight)
		}
		if err := writeFile(t.own.lock, name, strconv.Itoa(value)); err != nil {
			return fmt.Errorf("confine: the weight of control groups: %w", err)
		}
	}
	return nil
}

// sharesOf is what the scheduler gives processes of a nice value: a quarter more or
// less for each step.
func sharesOf(nice, processes, weight int) int {
	const mostShares = 1 << 18
	if weight == 0 {
		weight = normalWeight
	}
	shares := normalShares * math.Pow(1.25, float64(-nice)) * float64(max(processes, 1)) * float64(weight) / normalWeight
	return int(min(max(shares, leastShares), mostShares))
}
