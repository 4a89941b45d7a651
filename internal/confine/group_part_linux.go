package confine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	quotaPeriod  = 100 * time.Millisecond
	normalWeight = 100
	normalShares = 1024 // what v1 calls the normal weight
	leastShares  = 2
	// mostLeft is how much memory may remain charged to a group that is reused: batches
	// that the kernel keeps for each CPU, and file cache.
	mostLeft = 1 << 20
)

// errUsed means that a group cannot be reset.
var errUsed = errors.New("the memory that was used before cannot be distinguished")

// part is the folder of a group in one tree. Its Group guards it.
type part struct {
	tree *tree
	dir  string
	fd   int // of dir
	// Of v1, opened for writing: the file by which a thread enters, and the bound of
	// PIDs, if any. A spawner thread may be forbidden to open files.
	tasks, pidsMax int
	peak           int // of v2: a descriptor with its own count of the peak; or -1
	before         counts
	memory         int64 // the current bound of memory, or 0
}

// counts are the kernel's counters that cannot be reset.
type counts struct {
	oomKills, pidsHits uint64
	throttled          time.Duration
}

// newPart creates the folder called name in t.
func newPart(t *tree, name string) (*part, error) {
	p := &part{tree: t, dir: filepath.Join(t.own.path, name), fd: -1, tasks: -1, pidsMax: -1, peak: -1}
	if err := makeGroup(p.dir); err != nil {
		return nil, fmt.Errorf("confine: control group: %w", err)
	}
	err := p.open()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("confine: control group %s: %w", p.dir, errors.Join(err, removeEmpty(p.dir)))
	}
	return p, nil
}

func (p *part) open() (err error) {
	if p.fd, err = openFolder(unix.AT_FDCWD, p.dir); err != nil || p.tree.v2 {
		return err
	}
	if p.tasks, err = openFile(p.fd, "tasks", unix.O_WRONLY); err != nil {
		return err
	}
	if p.keeps(pidsKind) {
		p.pidsMax, err = openFile(p.fd, "pids.max", unix.O_WRONLY)
	}
	return err
}

func (p *part) close() {
	for _, fd := range []*int{&p.fd, &p.tasks, &p.pidsMax, &p.peak} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}

func (p *part) keeps(k kinds) bool { return p.tree.kinds&k != 0 }

// bound sets all bounds. A new part has none, so zero fields are not written then.
func (p *part) bound(want Bounds, isNew bool) error {
	var faults []error
	if p.keeps(memoryKind) && (want.Memory > 0 || !isNew) {
		faults = append(faults, p.boundMemory(want.Memory, isNew))
	}
	if p.keeps(pidsKind) && (want.PIDs > 0 || !isNew) {
		faults = append(faults, p.boundPIDs(want.PIDs))
	}
	if p.keeps(cpuKind) && (want.CPU > 0 || !isNew) {
		faults = append(faults, p.boundCPU(want.CPU))
	}
	if p.keeps(cpuKind) && (want.Weight > 0 || !isNew) {
		faults = append(faults, p.weigh(want.Weight))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("confine: control group %s: %w", p.dir, err)
	}
	return nil
}

func (p *part) boundMemory(bytes int64, isNew bool) error {
	if p.tree.v2 {
		// No swap at all, and when one process is killed, all are: a worker is useless
		// without its helpers, and they without it.
		return errors.Join(
			writeFile(p.fd, "memory.max", orMax(bytes)),
			writeIfThere(p.fd, "memory.swap.max", map[bool]string{true: "0", false: "max"}[bytes > 0]),
			writeIfThere(p.fd, "memory.oom.group", map[bool]string{true: "1", false: "0"}[bytes > 0]))
	}
	limit := strconv.FormatInt(bytes, 10)
	if bytes == 0 {
		limit = "-1"
	}
	if !p.tree.swap {
		return writeFile(p.fd, "memory.limit_in_bytes", limit)
	}
	// The bound of memory with swap must never be lower than that of memory.
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if bytes == 0 || p.memory > 0 && bytes > p.memory {
		slices.Reverse(files)
	}
	for _, file := range files {
		if err := writeFile(p.fd, file, limit); err != nil {
			return err
		}
	}
	if p.memory = bytes; isNew {
		return writeIfThere(p.fd, "memory.swappiness", "0")
	}
	return nil
}

func orMax(n int64) string {
	if n == 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

// boundPIDs sets the number of processes and threads; 0 is unlimited.
func (p *part) boundPIDs(n int) error {
	if p.pidsMax >= 0 {
		return writeAll(p.pidsMax, "pids.max", orMax(int64(n)))
	}
	return writeFile(p.fd, "pids.max", orMax(int64(n)))
}

// boundCPU sets the quota, and releases processes throttled by an earlier one.
func (p *part) boundCPU(cpus float64) error {
	quota := int64(math.Round(cpus * float64(quotaPeriod.Microseconds())))
	if p.tree.v2 {
		return writeFile(p.fd, "cpu.max", orMax(quota)+" "+strconv.FormatInt(quotaPeriod.Microseconds(), 10))
	}
	if quota == 0 {
		quota = -1
	}
	return writeFile(p.fd, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10)) // the period is 100 ms from the start
}

func (p *part) weigh(weight int) error {
	if weight == 0 {
		weight = normalWeight
	}
	if p.tree.v2 {
		return writeFile(p.fd, "cpu.weight", strconv.Itoa(weight))
	}
	return writeFile(p.fd, "cpu.shares", strconv.Itoa(max(weight*normalShares/normalWeight, leastShares)))
}

// begin makes all counters start at zero. It fails with errUsed if the kernel cannot do
// that.
func (p *part) begin(isNew bool) (err error) {
	p.before = counts{}
	if isNew {
		return nil
	}
	if p.keeps(memoryKind) {
		if err := p.resetPeak(); err != nil {
			return err
		}
	}
	p.before, err = p.counts()
	return err
}

// resetPeak restarts the peak: in v1 for all readers, and in v2 since 6.12 for readers of
// the descriptor that was used for it.
func (p *part) resetPeak() error {
	if !p.tree.v2 {
		return writeFile(p.fd, "memory.max_usage_in_bytes", "0")
	}
	if p.peak < 0 {
		fd, err := openFile(p.fd, "memory.peak", unix.O_RDWR)
		if errors.Is(err, os.ErrNotExist) {
			return nil // before 5.19: only observed values are known
		}
		if err != nil {
			return errors.Join(errUsed, err)
		}
		p.peak = fd
	}
	if err := writeAll(p.peak, "memory.peak", "0"); err != nil {
		return errors.Join(errUsed, err)
	}
	return nil
}

// counts reads the counters that cannot be reset.
func (p *part) counts() (c counts, err error) {
	var faults [3]error
	if p.keeps(memoryKind) {
		c.oomKills, faults[0] = p.readOOMKills()
	}
	if p.keeps(pidsKind) {
		c.pidsHits, faults[1] = readField(p.fd, "pids.events", "max")
	}
	if p.keeps(cpuKind) {
		var n uint64
		n, faults[2] = readField(p.fd, "cpu.stat", p.file("throttled_time", "throttled_usec"))
		unit := time.Nanosecond
		if p.tree.v2 {
			unit = time.Microsecond
		}
		c.throttled = time.Duration(n) * unit
	}
	return c, errors.Join(faults[:]...)
}

// readOOMKills counts kills for lack of memory. A group whose processes die together
// counts once: oom_kill would count the process that the kernel chose first twice.
func (p *part) readOOMKills() (uint64, error) {
	if p.tree.v2 {
		n, err := readField(p.fd, "memory.events", "oom_group_kill")
		if err != nil || n > 0 {
			return n, err
		}
	}
	return readField(p.fd, p.file("memory.oom_control", "memory.events"), "oom_kill")
}

// file chooses between the names of v1 and v2.
func (p *part) file(v1, v2 string) string {
	if p.tree.v2 {
		return v2
	}
	return v1
}

// usage adds this part's counts to u.
func (p *part) usage(u *Usage) error {
	c, err := p.counts()
	if err != nil {
		return err
	}
	if p.keeps(memoryKind) {
		u.OOMKills = c.oomKills - p.before.oomKills
		if u.Memory, err = readNumber(p.fd, p.file("memory.usage_in_bytes", "memory.current")); err != nil {
			return err
		}
		if u.Peak, err = p.readPeak(); err != nil {
			return err
		}
	}
	if p.keeps(pidsKind) {
		u.PIDsHits = c.pidsHits - p.before.pidsHits
		n, err := readNumber(p.fd, "pids.current")
		if err != nil {
			return err
		}
		u.PIDs = int(n)
	}
	if p.keeps(cpuKind) {
		u.Throttled = c.throttled - p.before.throttled
	}
	return nil
}

// readPeak returns the peak, or 0 if the kernel does not record it.
func (p *part) readPeak() (int64, error) {
	if !p.tree.v2 {
		return readNumber(p.fd, "memory.max_usage_in_bytes")
	}
	if p.peak >= 0 {
		text, err := readAll(p.peak, "memory.peak")
		if err != nil {
			return 0, err
		}
		return parseNumber(text, "memory.peak")
	}
	n, err := readNumber(p.fd, "memory.peak")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return n, err
}

// empty reports whether the group and those below it certainly have no processes.
func (p *part) empty() bool {
	var s unix.Stat_t
	if unix.Fstat(p.fd, &s) != nil || s.Nlink != 2 {
		return false
	}
	pids, err := readFile(p.fd, "cgroup.procs")
	return err == nil && pids == ""
}

// clean reports whether a group without processes is like new, after it has freed its
// file cache if that is large.
func (p *part) clean() bool {
	var s unix.Stat_t
	if unix.Fstat(p.fd, &s) != nil || s.Nlink != 2 { // a process has created groups in it
		return false
	}
	if p.tree.v2 {
		if on, err := readFile(p.fd, "cgroup.subtree_control"); err != nil || len(on) > 1 {
			return false
		}
	}
	if p.keeps(pidsKind) {
		// Processes that have ended and are not waited for count against the bound.
		if n, err := readNumber(p.fd, "pids.current"); err != nil || n != 0 {
			return false
		}
	}
	if !p.keeps(memoryKind) {
		return true
	}
	left, err := readNumber(p.fd, p.file("memory.usage_in_bytes", "memory.current"))
	if err == nil && left > mostLeft {
		if p.tree.v2 {
			err = writeFile(p.fd, "memory.reclaim", strconv.FormatInt(left, 10))
		} else {
			err = writeFile(p.fd, "memory.force_empty", "0")
		}
		if err == nil || errors.Is(err, unix.EAGAIN) { // v2: not all was freed
			left, err = readNumber(p.fd, p.file("memory.usage_in_bytes", "memory.current"))
		}
	}
	return err == nil && left <= mostLeft
}
