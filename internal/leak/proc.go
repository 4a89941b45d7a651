package leak

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descriptor is one open file descriptor of this process.
type descriptor struct {
	number int
	target string // what /proc/self/fd links to
}

// runtime reports whether the Go runtime opens such a descriptor for its network poller,
// at first use and permanently.
func (d descriptor) runtime() bool {
	return d.target == "anon_inode:[eventpoll]" || d.target == "anon_inode:[eventfd]"
}

// descriptors returns the open descriptors of this process.
func descriptors() map[descriptor]bool {
	open := map[descriptor]bool{}
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return open // this system has no such folder
	}
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The descriptor of the folder itself is closed by now.
		if target, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil {
			open[descriptor{number, target}] = true
		}
	}
	return open
}

// process identifies a process. Its start time distinguishes it from a later one with the
// same number.
type process struct {
	pid   int
	start string // field 22 of /proc/PID/stat, in ticks after boot
}

// stat holds the needed fields of /proc/PID/stat.
type stat struct {
	name   string
	state  string
	parent int
	start  string
}

// readStat reads /proc/PID/stat. The name is in parentheses and may contain anything,
// even parentheses, so the fields are counted from the last one.
func readStat(pid int) (stat, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	text := string(b)
	left, right := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if left < 0 || right < left {
		return stat{}, false
	}
	fields := strings.Fields(text[right+1:]) // fields[0] is field 3
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, false
	}
	return stat{name: text[left+1 : right], state: fields[0], parent: parent, start: fields[19]}, true
}

// children returns all descendants of this process, including unreaped ones.
func children() map[process]bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // this system has no such folder
	}
	stats := map[int]stat{}
	byParent := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok {
			stats[pid] = s
			byParent[s.parent] = append(byParent[s.parent], pid)
		}
	}
	found := map[process]bool{}
	todo := byParent[os.Getpid()]
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1:len(todo)-1], byParent[pid]...)
		found[process{pid, stats[pid].start}] = true
	}
	return found
}

// describe returns what p is and which process is its parent.
func (p process) describe() string {
	s, ok := readStat(p.pid)
	if !ok || s.start != p.start {
		return fmt.Sprintf("%d ended while it was looked at", p.pid)
	}
	if s.state == "Z" {
		return fmt.Sprintf("%d has ended and was not waited for: %s, child of %d", p.pid, s.name, s.parent)
	}
	command := s.name
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)); err == nil && len(b) > 0 {
		command = strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")
	}
	return fmt.Sprintf("%d lives: %s (state %s), child of %d", p.pid, command, s.state, s.parent)
}

// cgroupPrefix is the prefix of all cgroup folders of Bullpen. The number after it is
// that of the process that made the folder.
const cgroupPrefix = "bullpen-"

// hostLeaf is the cgroup to which a process that creates groups must move in cgroup v2.
// The process is still in it, so the folder stays.
const hostLeaf = cgroupPrefix + "host"

// cgroups returns the cgroup folders of Bullpen that this process, or a dead one, has
// made. Test binaries run concurrently, so the folders of another live process are not
// this test's concern.
func cgroups() map[string]bool {
	found := map[string]bool{}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a folder that cannot be read, or has just gone, holds none of ours
		}
		if !e.IsDir() || !strings.HasPrefix(e.Name(), cgroupPrefix) {
			return nil
		}
		if e.Name() != hostLeaf && !othersCgroup(e.Name()) {
			found[path] = true
		}
		return fs.SkipDir
	})
	return found
}

// othersCgroup reports whether the folder name contains the number of another live
// process.
func othersCgroup(name string) bool {
	digits := strings.TrimPrefix(name, cgroupPrefix)
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	pid, err := strconv.Atoi(digits)
	if err != nil || pid == os.Getpid() {
		return false
	}
	s, ok := readStat(pid)
	return ok && s.state != "Z"
}
