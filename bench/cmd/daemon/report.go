package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
)

// goal is a figure that was asked for.
type goal struct {
	what, cell, metric string
	bound              float64
	least              bool // the figure has to reach the bound; else it must not exceed it
	unit               string
}

var goals = []goal{
	{"ephemeral, one caller, p50", "ephemeral/1", "p50_ms", .25, false, "ms"},
	{"durable, one caller, p50", "durable/1", "p50_ms", 1, false, "ms"},
	{"durable, 64 callers", "durable/64", "rate", 12_000, true, "jobs/s"},
	// Four times what AWS's emulator reaches with one function of one client (650 to 1136/s).
	{"Lambda Invoke, one caller", "invoke/1", "rate", 4 * 1136, true, "calls/s"},
	{"Lambda Invoke, 64 callers", "invoke/64", "rate", 4 * 1136, true, "calls/s"},
	{"ready after its start", "idle", "ready_ms", 100, false, "ms"},
	{"resident, one pool that idles", "idle", "resident_mib", 40, false, "MiB"},
}

const mostBinary = 35 << 20

// save writes the raw figures and the table.
func (r *run) save(dir string) error {
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, r.Date.Format("2006-01-02")+"-daemon.json"), append(raw, '\n'), 0o644); err != nil { //nolint:gosec // for all to read
		return err
	}
	text := r.table()
	fmt.Print(text)
	return os.WriteFile(filepath.Join(dir, "daemon.md"), []byte(text), 0o644) //nolint:gosec // for all to read
}

// of gives what the rounds gave for a figure.
func (r *run) of(cell, metric string) (figure.Spread, bool) {
	var all []float64
	for _, t := range r.Cells {
		if v, ok := t.Metrics[metric]; ok && t.Cell == cell {
			all = append(all, v)
		}
	}
	return figure.Of(all)
}

func (r *run) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The daemon from outside\n\n%s, `%s`, %d rounds of %s a cell in a new random order each, took %s.\n%s, %d processors, %s, Linux %s.\n",
		r.Date.Format("2006-01-02"), r.Command, r.Rounds, r.Span, r.Took, r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel)
	var busy float64
	for _, t := range r.Cells {
		busy = max(busy, t.Others)
	}
	fmt.Fprintf(&b, "Client, daemon and its two workers share the processors. Other programs took at most %.0f %% of them before a cell.\n", busy)
	b.WriteString("\n| asked for | bound | median | least | most | |\n|---|---|---|---|---|---|\n")
	for _, g := range goals {
		s, ok := r.of(g.cell, g.metric)
		if !ok {
			fmt.Fprintf(&b, "| %s | %s %s | not measured | | | |\n", g.what, number(g.bound), g.unit)
			continue
		}
		word := "met"
		if g.least && s.Median < g.bound || !g.least && s.Median > g.bound {
			word = "missed"
		}
		fmt.Fprintf(&b, "| %s | %s %s | %s | %s | %s | %s |\n", g.what, number(g.bound), g.unit, number(s.Median), number(s.Least), number(s.Most), word)
	}
	word := "met"
	if r.Binary > mostBinary {
		word = "missed"
	}
	fmt.Fprintf(&b, "| binary, stripped | %d MiB | %s | | | %s |\n", mostBinary>>20, number(float64(r.Binary)/(1<<20)), word)
	r.cells(&b)
	return b.String()
}

// cells writes all figures, with their ratio to the bare server.
func (r *run) cells(b *strings.Builder) {
	b.WriteString("\n| cell | requests/s | of the bare server | p50 ms | p99 ms |\n|---|---|---|---|---|\n")
	var ids []string
	for _, t := range r.Cells {
		if t.Cell != "idle" && !slices.Contains(ids, t.Cell) {
			ids = append(ids, t.Cell)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		_, callers, _ := strings.Cut(id, "/")
		rate, ok := r.of(id, "rate")
		if !ok {
			fmt.Fprintf(b, "| %s | failed | | | |\n", id)
			continue
		}
		bare, _ := r.of("bare/"+callers, "rate")
		p50, _ := r.of(id, "p50_ms")
		p99, _ := r.of(id, "p99_ms")
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", id, figure.Number(rate.Median, 0), figure.Ratio(rate.Median/bare.Median), number(p50.Median), number(p99.Median))
	}
	for _, t := range r.Cells {
		if t.Error != "" {
			fmt.Fprintf(b, "\n%s, round %d: %s\n", t.Cell, t.Round, figure.CellText(t.Error))
		}
	}
}

// number writes a figure with three digits that mean something.
func number(v float64) string {
	if v >= 100 {
		return figure.Number(v, 0)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
