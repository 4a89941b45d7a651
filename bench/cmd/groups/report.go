package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// run is what one call of the command has measured.
type run struct {
	Date    time.Time       `json:"date"`
	Command string          `json:"command"`
	Rounds  int             `json:"rounds"`
	Span    string          `json:"span"`
	Backlog int             `json:"backlog"`
	Machine machine.Machine `json:"machine"`
	Load    string          `json:"load"`
	Rates   []rateFigure    `json:"rates"`
	Waits   []waitFigure    `json:"waits"`
}

// raw is the name of the file with the raw figures.
func (r *run) raw() string { return r.Date.Format(time.DateOnly) + "-groups.json" }

func (r *run) save(folder string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, r.raw()), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "groups.md"), []byte(r.table()), 0o644)
}

func median[V int64 | float64](all []V) V {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r *run) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Limits and fairness by group: %s\n\n", r.Date.Format(time.DateOnly))
	fmt.Fprintf(&b, "`%s`: %d rounds, %s a cell, medians. Raw figures: %s.\n\n", r.Command, r.Rounds, r.Span, r.raw())
	m := r.Machine
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s. Load average before: %s.\n\n", m.Processor, m.Processors, m.Kernel, r.Load)
	if len(r.Rates) > 0 {
		b.WriteString("Jobs a second from enqueuing to their durable outcome, 64 callers, 64 places, limits that do not bind:\n\n")
		b.WriteString("| groups | jobs/s | × no groups | processor time a job, us | × no groups |\n|---|---|---|---|---|\n")
		base, least := r.rate(0)
		for _, n := range rates {
			each, cpu := r.rate(n)
			fmt.Fprintf(&b, "| %d | %.0f | %.2f | %.1f | %.2f |\n", n, each, each/base, cpu, cpu/least)
		}
		b.WriteString("\n")
	}
	if len(r.Waits) > 0 {
		fmt.Fprintf(&b, "How long jobs of one group wait, one each %v, %d places, jobs of %v, each within a half of it:\n\n", every, places, works)
		b.WriteString("| limit of each group | jobs of another group | wait p50 | p99 | × alone (p99) |\n|---|---|---|---|---|\n")
		for _, limit := range []int{places / 2, 0} {
			for _, backlog := range []int{0, r.Backlog} {
				p50, p99 := r.wait(limit, backlog)
				_, alone := r.wait(limit, 0)
				fmt.Fprintf(&b, "| %d | %d | %v | %v | %.1f |\n", limit, backlog, p50, p99, float64(p99)/float64(alone))
			}
		}
	}
	return b.String()
}

func (r *run) rate(groups int) (each, cpu float64) {
	var all, used []float64
	for _, f := range r.Rates {
		if f.Groups == groups {
			all, used = append(all, f.PerSecond), append(used, f.CPU)
		}
	}
	return median(all), median(used)
}

func (r *run) wait(limit, backlog int) (p50, p99 time.Duration) {
	var fifty, ninetynine []int64
	for _, f := range r.Waits {
		if f.Limit == limit && f.Backlog == backlog {
			fifty, ninetynine = append(fifty, int64(f.P50)), append(ninetynine, int64(f.P99))
		}
	}
	return time.Duration(median(fifty)), time.Duration(median(ninetynine))
}
