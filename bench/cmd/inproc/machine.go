package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine says where the figures were taken, and with which versions.
type machine struct {
	Processor  string            `json:"processor"`
	Processors int               `json:"processors"`
	Memory     string            `json:"memory"`
	Kernel     string            `json:"kernel"`
	Versions   map[string]string `json:"versions"`
	Load       string            `json:"load_before"`
}

// compared are the modules whose versions matter.
var compared = []string{"Jeffail/tunny", "alitto/pond", "bytedance/gopkg", "gammazero/workerpool", "panjf2000/ants",
	"sourcegraph/conc", "x/sync"}

func describe() machine {
	m := machine{
		Processor: field("/proc/cpuinfo", "model name"),
		Memory:    field("/proc/meminfo", "MemTotal"),
		Load:      load(),
		Versions:  map[string]string{"go": runtime.Version()},
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		m.Processors = set.Count()
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	for _, d := range info.Deps {
		for _, name := range compared {
			if strings.Contains(d.Path, name) {
				m.Versions[name] = d.Version
			}
		}
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

// calm is the part of the processors, in percent, that other programs may take
// without spoiling a figure. One tick of the clock more or less is 5 to 10.
const calm = 15

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
