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
func (r *run) tableFile() string {
	if r.Stores {
		return "store.md"
	}
	return "queue.md"
}

// reference is the system that the tables compare with all others, and its name.
func (r *run) reference() (id, name string) {
	if r.Stores {
		return pebbleStore, "Pebble"
	}
	return bullpen, "Bullpen"
}

// save keeps the run as JSON, and its tables beside it.
func (r *run) save(o options) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := filepath.Join(o.out, r.Date.Format("2006-01-02")+"-"+o.name+".json")
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return err
	}
	table := filepath.Join(o.out, r.tableFile())
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
	return os.WriteFile(filepath.Join(o.out, r.tableFile()), []byte(r.markdown(filepath.Base(o.render))), 0o644)
}

// in gives the figure of one round, false where that has none.
func (r *run) in(round int, system, experiment, key string) (float64, bool) {
	for _, m := range r.Cells {
		if m.Round == round && m.System == system && m.Experiment == experiment && m.Error == "" {
			v, ok := m.Metrics[key]
			return v, ok
		}
	}
	return 0, false
}

// figure gives the spread of a figure over the rounds, false where none has it.
func (r *run) figure(system, experiment, key string) (figure.Spread, bool) {
	var all []float64
	for round := 1; round <= r.Rounds; round++ {
		if v, ok := r.in(round, system, experiment, key); ok {
			all = append(all, v)
		}
	}
	return figure.Of(all)
}

// markdown renders the run.
func (r *run) markdown(file string) string {
	var b strings.Builder
	title, anchor := "The durable queue beside its peers", "the-durable-queue"
	if r.Stores {
		title, anchor = "Bare stores beside each other", "bare-stores"
	}
	fmt.Fprintf(&b, "# %s: %s\n\n", title, r.Date.Format("2006-01-02"))
	fmt.Fprintf(&b, "`%s`: %d rounds of %s a rate, in %s; medians of the rounds, in brackets the least and the most. Raw figures: %s. How to read this: [README](../README.md#%s).\n\n",
		r.Command, r.Rounds, r.Span, r.Took, file, anchor)
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s, Linux %s. Load average before: %s.\n",
		r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel, r.Machine.Load)
	versions := make([]string, 0, len(r.Machine.Versions))
	for name, text := range r.Machine.Versions {
		versions = append(versions, name+": "+text)
	}
	slices.Sort(versions)
	fmt.Fprintf(&b, "%s.\n", strings.Join(versions, "; "))
	r.quiet(&b)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", figure.CellText(n))
	}
	if !r.Stores { // they have no goals
		r.goalTable(&b)
	}
	for _, e := range experiments() {
		r.table(&b, e)
	}
	r.failures(&b)
	return b.String()
}

// quiet says how fast the disk was, and whether other programs kept the processors
// busy.
func (r *run) quiet(b *strings.Builder) {
	noisy := 0
	for _, m := range r.Cells {
		if m.Others > machine.Calm {
			noisy++
		}
	}
	var p50, most []float64
	for _, m := range r.Cells {
		if m.SyncP50 > 0 {
			p50, most = append(p50, m.SyncP50), append(most, m.SyncMost)
		}
	}
	if mid, ok := figure.Of(p50); ok {
		longest, _ := figure.Of(most)
		fmt.Fprintf(b, "\nThe disk: before each cell %d appends of %d bytes were synced one by one; their p50 was %.3f ms (%.3f..%.3f over the cells), the longest %.1f ms (%.1f..%.1f).\n",
			someSyncs, payloadSize, mid.Median, mid.Least, mid.Most, longest.Median, longest.Least, longest.Most)
	}
	if noisy == 0 {
		fmt.Fprintf(b, "\nThe machine was quiet: before each cell other programs kept the processors at most %d %% busy.\n", machine.Calm)
		return
	}
	fmt.Fprintf(b, "\n**The machine was not quiet:** before %d of %d cells other programs kept the processors more than %d %% busy. Read ratios of one experiment, with care.\n",
		noisy, len(r.Cells), machine.Calm)
}

// table writes one experiment, if any of its cells was taken.
func (r *run) table(b *strings.Builder, e experiment) {
	all := slices.DeleteFunc(systems(), func(s system) bool {
		return !slices.ContainsFunc(r.Cells, func(m measured) bool { return m.System == s.id && m.Experiment == e.id })
	})
	if len(all) == 0 {
		return
	}
	columns := slices.DeleteFunc(slices.Clone(e.columns), func(c column) bool { return c.stores && !r.Stores })
	id, name := r.reference()
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| | durable by |", e.title, e.note)
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", strings.TrimSpace(c.title))
	}
	compares := columns[0].key == "rate"
	if compares {
		fmt.Fprintf(b, " %s's rate is × this |", name)
	}
	b.WriteString("\n" + strings.Repeat("|---", len(columns)+2))
	if compares {
		b.WriteString("|---")
	}
	b.WriteString("|\n")
	for _, s := range all {
		fmt.Fprintf(b, "| %s | %s |", s.shown(), s.durable)
		for _, c := range columns {
			text := "-"
			if v, ok := r.figure(s.id, e.id, c.key); ok {
				text = figure.Number(v.Median, c.digits)
				if v.Least < v.Most {
					text += fmt.Sprintf(" (%s..%s)", figure.Number(v.Least, c.digits), figure.Number(v.Most, c.digits))
				}
			}
			fmt.Fprintf(b, " %s |", text)
		}
		if compares {
			text := "-"
			if v, ok := r.reached(goal{system: id, against: s.id, experiment: e.id, key: "rate"}); ok && s.id != id {
				text = figure.Ratio(v.Median)
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

// shown sets ours in bold and what is no job queue in italics.
func (s system) shown() string {
	switch s.kind {
	case ours:
		return "**" + s.title + "**"
	case floor:
		return "*" + s.title + "*"
	default:
		return s.title
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
		fmt.Fprintf(b, "- %s/%s, round %d: %s\n", m.System, m.Experiment, m.Round, figure.CellText(m.Error))
	}
}
