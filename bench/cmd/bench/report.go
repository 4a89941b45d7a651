package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// save keeps the run as JSON, and its table as latest.md.
func (r *run) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, r.Date.Format("2006-01-02")+"-"+r.Name+".json")
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return err
	}
	table := filepath.Join(dir, "latest.md")
	fmt.Fprintln(os.Stderr, "results:", file, "and", table)
	return os.WriteFile(table, []byte(r.markdown(filepath.Base(file))), 0o644)
}

// rerender writes the table of a kept run again.
func rerender(o options) error {
	b, err := os.ReadFile(o.render)
	if err != nil {
		return err
	}
	var r run
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("%s: %w", o.render, err)
	}
	return os.WriteFile(filepath.Join(o.out, "latest.md"), []byte(r.markdown(filepath.Base(o.render))), 0o644)
}

// figure gives the spread of a metric over the rounds, false where no round has it.
func (r *run) figure(system, experiment, key string) (figure.Spread, bool) {
	var all []float64
	for _, m := range r.Figures {
		if v, ok := m.Metrics[key]; ok && m.System == system && m.Experiment == experiment {
			all = append(all, v)
		}
	}
	return figure.Of(all)
}

// best gives the best median among the systems that pick takes.
func (r *run) best(experiment string, m metric, pick func(system) bool) (float64, string) {
	value, title := math.NaN(), ""
	for _, s := range systems() {
		if f, ok := r.figure(s.ID, experiment, m.Key); ok && pick(s) {
			if math.IsNaN(value) || (f.Median < value) == m.Less {
				value, title = f.Median, s.Title
			}
		}
	}
	return value, title
}

func isRoadRunner(s system) bool { return strings.HasPrefix(s.ID, "roadrunner") }
func isPeer(s system) bool       { return s.Kind == peer }

// markdown renders the run.
func (r *run) markdown(file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Process pools side by side: %s, %s\n\n", r.Date.Format("2006-01-02"), r.Name)
	fmt.Fprintf(&b, "`%s`: %d rounds, %s a figure; medians, in brackets the least and the most. Raw figures: %s. How to read this: [README](../README.md).\n\n",
		r.Command, r.Rounds, r.Span, file)
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s, Linux %s. Load average before: %s.\n",
		r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel, r.Machine.Load)
	versions := make([]string, 0, len(r.Machine.Versions))
	for name, text := range r.Machine.Versions {
		versions = append(versions, name+": "+text)
	}
	slices.Sort(versions)
	fmt.Fprintf(&b, "%s.\n", strings.Join(versions, "; "))
	if n := r.disturbed(); n > 0 {
		fmt.Fprintf(&b, "\n**The machine was not quiet:** before %d of %d figures other programs kept the processors more than %d %% busy. Read those with care, and those of Bullpen first: its workers run at a low priority.\n",
			n, len(r.Figures), machine.Calm)
	} else {
		fmt.Fprintf(&b, "\nThe machine was quiet: before each figure other programs kept the processors at most %d %% busy.\n", machine.Calm)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", figure.CellText(n))
	}
	r.goalTable(&b)
	for _, e := range experiments() {
		r.table(&b, e)
	}
	r.failures(&b)
	return b.String()
}

// disturbed counts the figures before which other programs were busy.
func (r *run) disturbed() (n int) {
	for _, m := range r.Figures {
		if m.Others > machine.Calm {
			n++
		}
	}
	return n
}

// row is one system of a table.
type row struct {
	system  system
	figures []figure.Spread
	has     []bool
}

func (r *run) rows(e experiment) []row {
	var rows []row
	for _, s := range systems() {
		w := row{system: s}
		for _, m := range e.Metrics {
			f, ok := r.figure(s.ID, e.ID, m.Key)
			w.figures, w.has = append(w.figures, f), append(w.has, ok)
		}
		if slices.Contains(w.has, true) {
			rows = append(rows, w)
		}
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		switch {
		case !x.has[0] || !y.has[0]: // those without the first figure go last
			return order(y.has[0]) - order(x.has[0])
		case e.Metrics[0].Less:
			return cmp.Compare(x.figures[0].Median, y.figures[0].Median)
		default:
			return cmp.Compare(y.figures[0].Median, x.figures[0].Median)
		}
	})
	return rows
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r *run) table(b *strings.Builder, e experiment) {
	rows := r.rows(e)
	if len(rows) == 0 {
		return
	}
	rr, _ := r.best(e.ID, e.Metrics[0], isRoadRunner)
	top, name := r.best(e.ID, e.Metrics[0], isPeer)
	compare := e.Ratios && name != ""
	fmt.Fprintf(b, "\n## %s\n\n", e.Title)
	if compare {
		fmt.Fprintf(b, "Best peer: %s.\n\n", name)
	}
	head := "| system | in flight |"
	for _, m := range e.Metrics {
		head += " " + m.Title + " |"
	}
	if compare {
		head += " × RoadRunner | × best peer |"
	}
	if e.ID == "kill" {
		head += " what the victim's caller was told |"
	}
	fmt.Fprintf(b, "%s\n|%s\n", head, strings.Repeat("---|", strings.Count(head, "|")-1))
	for _, w := range rows {
		inFlight, notes := r.words(w.system.ID, e.ID)
		fmt.Fprintf(b, "| %s | %s |", w.system.Title, inFlight)
		for i, m := range e.Metrics {
			fmt.Fprintf(b, " %s |", w.text(i, m))
		}
		if compare {
			fmt.Fprintf(b, " %s | %s |", ratio(w.figures[0].Median, rr), ratio(w.figures[0].Median, top))
		}
		if e.ID == "kill" {
			fmt.Fprintf(b, " %s |", figure.CellText(notes["victim"]))
		}
		b.WriteString("\n")
	}
}

func (w row) text(i int, m metric) string {
	if !w.has[i] {
		return "-"
	}
	f := w.figures[i]
	if f.Least == f.Most {
		return figure.Number(f.Median, m.Digits)
	}
	return fmt.Sprintf("%s (%s..%s)", figure.Number(f.Median, m.Digits), figure.Number(f.Least, m.Digits), figure.Number(f.Most, m.Digits))
}

// words gives what goes with the latest figure of a system.
func (r *run) words(system, experiment string) (inFlight string, notes map[string]string) {
	for _, m := range r.Figures {
		if m.System == system && m.Experiment == experiment && m.Error == "" {
			inFlight, notes = m.InFlight, m.Notes
		}
	}
	return inFlight, notes
}

// failures lists the cells that gave no figure.
func (r *run) failures(b *strings.Builder) {
	first := true
	for _, m := range r.Figures {
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

func ratio(value, base float64) string {
	if math.IsNaN(base) || base == 0 {
		return "-"
	}
	return figure.Ratio(value / base)
}
