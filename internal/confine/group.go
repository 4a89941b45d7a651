package confine

import (
	"errors"
	"fmt"
	"time"
)

// Bounds are the limits that the kernel keeps for all processes of a group
// together. Zero fields bound nothing.
type Bounds struct {
	Memory int64   // bytes of memory; swap does not widen it
	PIDs   int     // processes and threads
	CPU    float64 // processors' worth of time in each tenth of a second; 0.01 at least
	Weight int     // share of the CPUs when they are scarce, 1 to 10000; 100 is normal
}

// Usage is what the processes of a group have used since it was got. Kinds
// that the group does not keep count of are 0.
type Usage struct {
	Memory int64 // bytes now, file cache and the kernel's own included
	// Peak is the most that Memory has been. Kernels before 5.19 do not keep
	// it for cgroup v2: there it is the most that a call of Usage has seen.
	Peak int64
	// OOMKills counts the kills for want of memory: mostly the group's own, and
	// then Peak is close to the bound, but also that of the machine. In cgroup
	// v2 each kills all in the group (before Linux 5.17 it may count as more
	// than one), in v1 one process.
	OOMKills  uint64
	PIDsHits  uint64        // processes and threads refused for the bound
	Throttled time.Duration // time held back for the bound, summed over the CPUs
	PIDs      int           // processes and threads now, those not yet waited for included
}

// leastCPU is the smallest quota the kernel takes: 1 ms in 100 ms.
const leastCPU = 0.01

// check reports all faults of b that can be seen without trying.
func (b Bounds) check() error {
	var faults []error
	if b.Memory < 0 {
		faults = append(faults, fmt.Errorf("confine: Bounds.Memory %d is negative", b.Memory))
	}
	if b.PIDs < 0 {
		faults = append(faults, fmt.Errorf("confine: Bounds.PIDs %d is negative", b.PIDs))
	}
	if b.CPU != 0 && !(b.CPU >= leastCPU && b.CPU <= 1<<20) { // NaN is refused as well
		faults = append(faults, fmt.Errorf("confine: Bounds.CPU %v is below %v, or not a number of processors", b.CPU, leastCPU))
	}
	if b.Weight < 0 || b.Weight > 10000 {
		faults = append(faults, fmt.Errorf("confine: Bounds.Weight %d is not between 1 and 10000", b.Weight))
	}
	return errors.Join(faults...)
}
