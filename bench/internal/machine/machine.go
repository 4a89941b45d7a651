// Package machine says where the figures of a benchmark are taken, and waits until
// other programs leave the processors alone. Linux only.
package machine

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine says where the figures were taken, and with which versions.
type Machine struct {
	Processor  string            `json:"processor"`
	Processors int               `json:"processors"`
	Memory     string            `json:"memory"`
	Kernel     string            `json:"kernel"`
	Versions   map[string]string `json:"versions"`
	Load       string            `json:"load_before"`
}

// Describe gives this machine, with the version of Go alone.
func Describe() Machine {
	m := Machine{
		Processor:  field("/proc/cpuinfo", "model name"),
		Processors: len(Allowed()),
		Memory:     field("/proc/meminfo", "MemTotal"),
		Load:       Load(),
		Versions:   map[string]string{"go": runtime.Version()},
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// Allowed lists the processors that this process may use.
func Allowed() (cpus []int) {
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

// Load is the load average of the last minute.
func Load() string {
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

// Calm is the part of the processors, in percent, that other programs may take
// without spoiling a figure. One tick of the clock more or less is 5 to 10.
const Calm = 15

// Others is the part of all processors that other programs take now, in percent,
// looked at for a moment in which nothing of the run works. While it is above
// Calm it looks again, for as long as patience lasts.
func Others(ctx context.Context, patience time.Duration) float64 {
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
		if percent <= Calm || time.Since(begin) >= patience {
			return percent
		}
	}
}
