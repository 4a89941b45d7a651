package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine says where the figures were taken.
type machine struct {
	Processor  string            `json:"processor"`
	Processors int               `json:"processors"`
	Memory     string            `json:"memory"`
	Kernel     string            `json:"kernel"`
	Versions   map[string]string `json:"versions"`
	Load       string            `json:"load_before"`
}

func describe(p places) machine {
	m := machine{
		Processor:  field("/proc/cpuinfo", "model name"),
		Processors: len(allowed()),
		Memory:     field("/proc/meminfo", "MemTotal"),
		Load:       load(),
		Versions:   map[string]string{"go": runtime.Version()},
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	for name, args := range map[string][]string{
		"python":   {p.python(), "-c", "import sys; print(sys.version.split()[0])"},
		"packages": {p.python(), "-m", "pip", "list", "--format=freeze"},
		"node":     {"node", "--version"},
		"parallel": {"parallel", "--version"},
		"xargs":    {"xargs", "--version"},
	} {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			continue // not installed: its cells say so
		}
		text, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if name == "packages" {
			text = strings.Join(strings.Fields(string(out)), " ")
		}
		m.Versions[name] = text
	}
	return m
}

// field gives what follows the name in a file of "name: value" or "name value"
// lines.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok { // /proc/stat has a blank there
			key, value, _ = strings.Cut(line, " ")
		}
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// load is the load average of the last minute.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// ticks gives the time that all processors together have been busy, and in all,
// since the machine started.
func ticks() (busy, all float64) {
	fields := strings.Fields(field("/proc/stat", "cpu"))
	for i, text := range fields[:min(8, len(fields))] { // guest time is in user time already
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0
		}
		if all += v; i != 3 && i != 4 { // idle and waiting for input and output
			busy += v
		}
	}
	return busy, all
}

// others is the part of all processors that other programs take now, in percent,
// looked at for a moment in which nothing of the run works. While it is above
// calm it looks again, for as long as patience lasts.
func others(ctx context.Context, patience time.Duration) float64 {
	for begin := time.Now(); ; {
		busy, all := ticks()
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(100 * time.Millisecond):
		}
		busyNow, allNow := ticks()
		percent := 0.0
		if allNow > all {
			percent = 100 * (busyNow - busy) / (allNow - all)
		}
		if percent <= calm || time.Since(begin) >= patience {
			return percent
		}
	}
}

// calm is the part of the processors, in percent, that other programs may take
// without spoiling a figure. One tick of the clock more or less is 5 to 10.
const calm = 15

// allowed lists the processors that this process may use.
func allowed() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// oneCore gives the words that pin a command to the last processor allowed: the
// first one often has the interrupts.
func oneCore() ([]string, error) {
	cpus := allowed()
	if len(cpus) == 0 {
		return nil, fmt.Errorf("the processors of this process are not known")
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, fmt.Errorf("taskset is not installed (apt-get install util-linux)")
	}
	return []string{"taskset", "-c", fmt.Sprint(cpus[len(cpus)-1])}, nil
}
