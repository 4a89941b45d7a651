package confine

import (
	"fmt"
	"math"
	"strconv"
)

// Weigh sets the CPU weight of all groups together against the other processes in the
// host's group: as much as that of so many processes of the given nice value. Without it
// a folder of groups weighs as much as one process of nice 0, whatever the nice values of
// its processes. weight is a further factor, where 100 is normal and 0 means 100; in
// Bounds it counts only among the groups. Weigh does nothing if no bound of CPU time was
// requested.
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

// sharesOf returns the scheduler's weight of processes of a nice value: a quarter more or
// less for each step.
func sharesOf(nice, processes, weight int) int {
	const mostShares = 1 << 18
	if weight == 0 {
		weight = normalWeight
	}
	shares := normalShares * math.Pow(1.25, float64(-nice)) * float64(max(processes, 1)) * float64(weight) / normalWeight
	return int(min(max(shares, leastShares), mostShares))
}
