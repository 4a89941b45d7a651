package executortest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// held is what this process holds at one moment.
type held struct {
	goroutines  int
	descriptors map[string]bool // by number and target
	children    map[string]bool // by number and start time, including zombies
}

func look() held {
	return held{runtime.NumGoroutine(), descriptors(), children()}
}

// leavesNothing checks, when the executors of the test are closed, that this process holds
// only what it holds now. No other test may run at the same time.
func leavesNothing(t *testing.T) {
	t.Helper()
	before := look()
	t.Cleanup(func() {
		if t.Failed() {
			return // then leftovers are allowed
		}
		var left string
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for end := time.Now().Add(patience); time.Now().Before(end); <-pause.C {
			if left = look().beyond(before); left == "" {
				return
			}
		}
		t.Errorf("after the executors have been closed there are left: %s", left)
	})
}

// beyond lists what h holds that before did not.
func (h held) beyond(before held) string {
	var found []string
	if h.goroutines > before.goroutines {
		found = append(found, fmt.Sprintf("%d goroutines, were %d", h.goroutines, before.goroutines))
	}
	for d := range h.descriptors {
		if !before.descriptors[d] {
			found = append(found, "descriptor "+d)
		}
	}
	for c := range h.children {
		if !before.children[c] {
			found = append(found, "child process "+c)
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}

// descriptors returns the open descriptors of this process, or none if they cannot be
// listed. It excludes those of the runtime's poller, which are opened once.
func descriptors() map[string]bool {
	open := map[string]bool{}
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return open // there is no such folder on this system
	}
	for _, e := range entries {
		// The descriptor used to read the folder is closed by now.
		target, err := os.Readlink(filepath.Join(folder, e.Name()))
		if err == nil && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" {
			open[e.Name()+" "+target] = true
		}
	}
	return open
}

// children returns the child processes of this one, or none if they cannot be listed.
func children() map[string]bool {
	found := map[string]bool{}
	own := strconv.Itoa(os.Getpid())
	for _, pid := range processes() {
		if fields := stat(pid); fields != nil && fields[1] == own {
			found[fmt.Sprintf("%s, started at tick %s", pid, fields[19])] = true
		}
	}
	return found
}

// stat returns the fields of /proc/PID/stat after the name: state, parent and so on. It
// returns nil if the process does not exist.
func stat(pid string) []string {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return nil
	}
	return fields
}

// processes lists the processes that /proc shows.
func processes() []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // there is no such folder on this system
	}
	var all []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, e.Name())
		}
	}
	return all
}

// marked lists the processes that bad handlers started with a mark.
func marked(by string) []string { return withVariable(markVariable, by) }

// withVariable lists the processes that were started with an environment variable.
func withVariable(name, value string) []string {
	entry := []byte(name + "=" + value + "\x00")
	var found []string
	for _, pid := range processes() {
		if b, err := os.ReadFile("/proc/" + pid + "/environ"); err == nil && bytes.Contains(b, entry) {
			found = append(found, pid)
		}
	}
	return found
}

// needProcesses skips a test if processes cannot be listed.
func needProcesses(t *testing.T) {
	t.Helper()
	if _, err := os.ReadFile("/proc/self/environ"); err != nil {
		t.Skipf("processes that a task started cannot be found again: %v", err)
	}
}

// marks counts the marks of this process.
var marks atomic.Int64

// newMark returns a mark for the processes of a test's bad handlers. It contains no spaces.
func newMark() string { return fmt.Sprintf("%d-%d", os.Getpid(), marks.Add(1)) }
