package cell

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Children returns the living child processes of this one, oldest first, whose
// command line contains text.
func Children(text string) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// The name stands in brackets and may hold blanks: read behind it.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(text)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// MemoryOf gives the mean resident (RSS), proportional (PSS) and unshared (USS)
// memory of the processes.
func MemoryOf(pids []int) (Result, error) {
	if len(pids) == 0 {
		return Result{}, fmt.Errorf("no worker process found")
	}
	sum := map[string]float64{}
	for _, pid := range pids {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return Result{}, err
		}
		defer func() { _ = f.Close() }()
		for s := bufio.NewScanner(f); s.Scan(); {
			name, rest, _ := strings.Cut(s.Text(), ":")
			if fields := strings.Fields(rest); len(fields) == 2 && fields[1] == "kB" {
				kb, err := strconv.ParseFloat(fields[0], 64)
				if err != nil {
					return Result{}, err
				}
				sum[name] += kb / 1024 / float64(len(pids))
			}
		}
	}
	return Result{
		Metrics: map[string]float64{
			"rss_mb": sum["Rss"], "pss_mb": sum["Pss"],
			"uss_mb":  sum["Private_Clean"] + sum["Private_Dirty"],
			"workers": float64(len(pids)),
		},
		InFlight: "0",
	}, nil
}
