package confine

import (
	"errors"
	"fmt"
	"time"
)

// Bounds are the limits that the kernel enforces for all processes of a group together.
// Zero fields are unlimited.
type Bounds struct {
	Memory int64   // bytes of memory; swap does not add to it
	PIDs   int     // processes and threads
	CPU    float64 // number of processors, enforced over each 100 ms; at least 0.01
	Weight int     // share of the CPUs when they are busy, 1 to 10000; 100 is normal
}

// Usage is what the processes of a group have used since Get. Values that the group does
// not count are 0.
type Usage struct {
	Memory int64 // current bytes, including file cache and the kernel's memory
	// Peak is the highest value of Memory. Kernels before 5.19 do not record it for
	// cgroup v2: there it is the highest that a call of Usage has seen.
	Peak int64
	// OOMKills counts kills for lack of memory: mostly because of the group's own bound,
	// when Peak is close to it, but also because of the machine's. In cgroup v2 each one
	// kills all processes in the group (before Linux 5.17 it may count as more than one),
	// in v1 one process.
	OOMKills  uint64
	PIDsHits  uint64        // processes and threads refused because of the bound
	Throttled time.Duration // time held back because of the bound, summed over the CPUs
	PIDs      int           // current processes and threads, including those not waited for
}

// leastCPU is the smallest quota the kernel accepts: 1 ms in 100 ms.
const leastCPU = 0.01

// check reports all faults of b that are visible without trying.
func (b Bounds) check() error {
	var faults []error
	if b.Memory < 0 {
		faults = append(faults, fmt.Errorf("confine: Bounds.Memory %d is negative", b.Memory))
	}
	if b.PIDs < 0 {
		faults = append(faults, fmt.Errorf("confine: Bounds.PIDs %d is negative", b.PIDs))
	}
	if b.CPU != 0 && !(b.CPU >= leastCPU && b.CPU <= 1<<20) { // refuses NaN as well
		faults = append(faults, fmt.Errorf("confine: Bounds.CPU %v is below %v, or not a number of processors", b.CPU, leastCPU))
	}
	if b.Weight < 0 || b.Weight > 10000 {
		faults = append(faults, fmt.Errorf("confine: Bounds.Weight %d is not between 1 and 10000", b.Weight))
	}
	return errors.Join(faults...)
}
