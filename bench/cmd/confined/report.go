package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// tableFile is where the tables stand.
const tableFile = "confined.md"

// save keeps the run as JSON, and its tables as confined.md.
func (r *run) save(dir string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, r.Date.Format("2006-01-02")+"-confined.json")
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return err
	}
	table := filepath.Join(dir, tableFile)
	fmt.Fprintln(os.Stderr, "results:", file, "and", table)
	return os.WriteFile(table, []byte(r.markdown(filepath.Base(file))), 0o644)
}

// rerender writes the tables of a kept run again.
func rerender(o options) error {
	b, err := os.ReadFile(o.render)
	if err != nil {
		return err
	}
	var r run
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("%s: %w", o.render, err)
	}
	return os.WriteFile(filepath.Join(o.out, tableFile), []byte(r.markdown(filepath.Base(o.render))), 0o644)
}

// in gives the figure of one round, false where that has none.
func (r *run) in(round int, row, key string) (float64, bool) {
	for _, m := range r.Cells {
		if m.Round == round && m.Error == "" {
			if v, ok := m.Rows[row][key]; ok {
				return v, true
			}
		}
	}
	return 0, false
}

// figure gives the spread of a figure over the rounds, false where none has it.
func (r *run) figure(row, key string) (figure.Spread, bool) {
	var all []float64
	for round := 1; round <= r.Rounds; round++ {
		if v, ok := r.in(round, row, key); ok {
			all = append(all, v)
		}
	}
	return figure.Of(all)
}

// markdown renders the run.
func (r *run) markdown(file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Limits, sandboxes and fast starts: %s\n\n", r.Date.Format("2006-01-02"))
	fmt.Fprintf(&b, "`%s`: %d rounds in %s; medians of the rounds, in brackets the least and the most. Raw figures: %s. How to read this: [README](../README.md#limits-sandboxes-and-fast-starts).\n\n",
		r.Command, r.Rounds, r.Took, file)
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s, Linux %s. Load average before: %s.\n",
		r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel, r.Machine.Load)
	versions := make([]string, 0, len(r.Machine.Versions))
	for name, text := range r.Machine.Versions {
		versions = append(versions, name+": "+text)
	}
	slices.Sort(versions)
	fmt.Fprintf(&b, "%s.\n", strings.Join(versions, "; "))
	noisy := 0
	for _, m := range r.Cells {
		if m.Others > machine.Calm {
			noisy++
		}
	}
	if noisy > 0 {
		fmt.Fprintf(&b, "\n**The machine was not quiet:** before %d of %d cells other programs kept the processors more than %d %% busy. Workers run at a low priority and suffer first: read all times with care.\n",
			noisy, len(r.Cells), machine.Calm)
	} else {
		fmt.Fprintf(&b, "\nThe machine was quiet: before each cell other programs kept the processors at most %d %% busy.\n", machine.Calm)
	}
	if r.Quick {
		b.WriteString("\n**A quick run:** few starts and tasks; its 99th percentiles mean little.\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", figure.CellText(n))
	}
	r.goalTable(&b)
	for _, p := range parts() {
		r.table(&b, p)
	}
	r.failures(&b)
	return b.String()
}

// table writes one part, if any of its cells was taken.
func (r *run) table(b *strings.Builder, p part) {
	rows := slices.DeleteFunc(p.rows, func(w row) bool {
		return !slices.ContainsFunc(r.Cells, func(m measured) bool { return m.Rows[w.id] != nil })
	})
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| |", p.title, p.note)
	for _, c := range p.columns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	fmt.Fprintf(b, "\n|%s\n", strings.Repeat("---|", len(p.columns)+1))
	for _, w := range rows {
		fmt.Fprintf(b, "| %s |", w.shown())
		for _, c := range p.columns {
			text := "-"
			if s, ok := r.figure(w.id, c.key); ok {
				text = figure.Number(s.Median, c.digits)
				if s.Least < s.Most {
					text += fmt.Sprintf(" (%s..%s)", figure.Number(s.Least, c.digits), figure.Number(s.Most, c.digits))
				}
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

// shown sets ours in bold and what is no pool in italics.
func (w row) shown() string {
	switch w.kind {
	case ours:
		return "**" + w.title + "**"
	case floor:
		return "*" + w.title + "*"
	default:
		return w.title
	}
}

// failures lists the cells that gave no figure.
func (r *run) failures(b *strings.Builder) {
	first := true
	for _, m := range r.Cells {
		if m.Error == "" {
			continue
		}
		if first {
			b.WriteString("\n## Cells without a figure\n\n")
			first = false
		}
		fmt.Fprintf(b, "- %s, round %d: %s\n", m.Cell, m.Round, figure.CellText(m.Error))
	}
}
