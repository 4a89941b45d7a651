//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStrictWorkerCannotTouchItsNeighbour has one worker turn the tools of the
// system against every process it can name, the other worker of its pool among
// them, and then against itself, which is allowed.
func TestStrictWorkerCannotTouchItsNeighbour(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"prlimit", "renice", "taskset", "chrt", "ionice"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	config := Config{
		Command: []string{"sh", "-c", `while read -r x; do (eval "$x") 2>&1 | tail -n 1; done`}, Protocol: Lines, Min: 2, Max: 2, Nice: DefaultNice,
		Sandbox: Sandbox{Profile: ProfileStrict},
	}
	if p, err := New(config); err != nil {
		t.Skip(err)
	} else if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, config)
	if err := p.Ready(within(t, time.Minute), 2); err != nil {
		t.Fatal(err)
	}
	workers := p.Workers()
	before := make([]string, len(workers))
	for i, w := range workers {
		before[i] = standing(t, w.PID)
	}
	// The guard of their namespace is 1, and they come next.
	const each = `n=1; while [ $n -lt 8 ]; do [ $n = $$ ] || { %s; }; n=$((n+1)); done; echo through`
	for _, attack := range []string{
		"prlimit --pid $n --cpu=1:1", "renice -n 19 -p $n", "renice -n 19 -g $n", "taskset -pc 0 $n", "chrt -i -p 0 $n", "ionice -c 3 -p $n",
		"kill -STOP $n", "cat /proc/$n/environ",
	} {
		if got := do(t, p, "", fmt.Sprintf(each, attack)); got != "through" {
			t.Errorf("%s: %q", attack, got)
		}
	}
	for _, all := range []string{"renice -n 19 -u 0", fmt.Sprintf("renice -n 19 -u %d", os.Getuid())} {
		do(t, p, "", all+"; echo through")
	}
	for i, w := range p.Workers() {
		if now := standing(t, w.PID); w.PID != workers[i].PID || now != before[i] {
			t.Errorf("worker %s (process %d, before %d): %s; before: %s", w.Name, w.PID, workers[i].PID, now, before[i])
		}
	}
	for command, want := range map[string]string{
		"nice -n 5 nice": "15", "ulimit -t 100; ulimit -t": "100", "taskset -c 0 echo bound": "bound", "chrt -i 0 echo idle": "idle",
		"ionice -c 3 echo later": "later",
	} {
		if got := do(t, p, "", command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// standing is what others may have changed of a process.
func standing(t *testing.T, pid int) string {
	t.Helper()
	nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{fmt.Sprintf("nice %d", 20-nice)}
	for file, names := range map[string][]string{"limits": {"Max cpu time"}, "status": {"Cpus_allowed_list:"}, "sched": {"policy"}} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name) }) {
				found = append(found, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}
