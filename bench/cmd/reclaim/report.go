package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// run is all that a run gave.
type run struct {
	Date    time.Time       `json:"date"`
	Command string          `json:"command"`
	Kinds   int             `json:"kinds"`
	Span    string          `json:"span"`
	Gap     string          `json:"gap"`
	Seed    uint64          `json:"seed"`
	Machine machine.Machine `json:"machine"`
	Figures []figures       `json:"figures"`
}

// save keeps the run as reclaim.json, and its table as reclaim.md.
func (r *run) save(dir string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file, table := filepath.Join(dir, "reclaim.json"), filepath.Join(dir, "reclaim.md")
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "results:", file, "and", table)
	return os.WriteFile(table, []byte(r.markdown()), 0o644)
}

func (r *run) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What reclaiming idle workers saves: %s\n\n", r.Date.Format("2006-01-02"))
	fmt.Fprintf(&b, "`%s`: %d kinds of tasks, each with a Python worker of its own that imports one to four modules of the standard library. "+
		"Tasks of random kinds (the n-th kind 1/n as often as the first) arrive at random times, one each %s on the average, for %s; "+
		"all ways get the same tasks at the same times. Raw figures: reclaim.json. How to read this: [README](../README.md#reclaiming-idle-workers).\n\n",
		r.Command, r.Kinds, r.Gap, r.Span)
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s, Linux %s. Load average before: %s.\n",
		r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel, r.Machine.Load)
	versions := make([]string, 0, len(r.Machine.Versions))
	for name, text := range r.Machine.Versions {
		versions = append(versions, name+": "+text)
	}
	slices.Sort(versions)
	fmt.Fprintf(&b, "%s.\n", strings.Join(versions, "; "))
	noisy := 0
	for _, f := range r.Figures {
		if f.Others > machine.Calm {
			noisy++
		}
	}
	if noisy > 0 {
		fmt.Fprintf(&b, "\n**The machine was not quiet:** before %d of %d ways other programs kept the processors more than %d %% busy; read the times with care. Memory does not depend on it.\n",
			noisy, len(r.Figures), machine.Calm)
	}
	b.WriteString("\n| | RSS of all workers, MiB: mean | most | PSS, MiB: mean | most | × no reclaim (mean PSS) | workers: mean | most |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.1f | %d |\n", f.Title, figure.Number(f.MeanRSS, 0), figure.Number(f.PeakRSS, 0),
			figure.Number(f.MeanPSS, 0), figure.Number(f.PeakPSS, 0), figure.Ratio(f.MeanPSS/max(r.Figures[0].MeanPSS, 1)), f.MeanWorkers, f.PeakWorkers)
	}
	b.WriteString("\n| | tasks | failed | cold starts | a start takes, ms | latency, ms: p50 | p99 | most |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s | %s | %s | %s |\n", f.Title, f.Tasks, f.Failed, f.Starts,
			milliseconds(f.MeanStart), milliseconds(f.P50), milliseconds(f.P99), milliseconds(f.Max))
	}
	return b.String()
}

func milliseconds(d time.Duration) string {
	return figure.Number(float64(d)/1e6, 1)
}
