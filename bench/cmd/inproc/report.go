package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/figure"
	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// save keeps the run as JSON, and its tables as inproc.md.
func (r *run) save(dir string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, r.Date.Format("2006-01-02")+"-inproc.json")
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return err
	}
	table := filepath.Join(dir, "inproc.md")
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
	return os.WriteFile(filepath.Join(o.out, "inproc.md"), []byte(r.markdown(filepath.Base(o.render))), 0o644)
}

// figure gives the spread of a metric over the rounds, false where no round has it.
func (r *run) figure(system, experiment, key string, procs int) (figure.Spread, bool) {
	var all []float64
	for _, m := range r.Figures {
		if m.System != system || m.Experiment != experiment || m.Procs != procs || m.Error != "" {
			continue
		}
		if v, ok := m.Metrics[key]; ok {
			all = append(all, v)
		}
	}
	return figure.Of(all)
}

// table is one table for each GOMAXPROCS.
type table struct {
	title, note string
	// columns are experiments; their titles stand in heads.
	columns, heads []string
	// main is the experiment whose spread, bytes and ratios are shown.
	main string
	// base is the system that the others are compared with.
	base string
}

func tables() []table {
	many := table{title: "(b) Many producers, ns a task", main: "many-2", base: "chan"}
	for _, n := range producers {
		many.columns = append(many.columns, fmt.Sprintf("many-%d", n))
		many.heads = append(many.heads, strconv.Itoa(n))
	}
	group := table{title: "(d) Groups of 50!, ns a task by the size of the group", main: "group-1024", base: "chan",
		note: "50! wraps around in 64 bits, as it did in 2023. Spread, bytes and allocations are those of 1024."}
	for _, n := range sizes {
		group.columns = append(group.columns, fmt.Sprintf("group-%d", n))
		group.heads = append(group.heads, strconv.Itoa(n))
	}
	one := func(id, title, note string) table {
		return table{title: title, note: note, columns: []string{id}, main: id, base: "chan"}
	}
	return []table{
		one("one", "(a) One producer, a task that does nothing, ns a task", ""),
		many,
		one("trip", "(c) Round trip: submit one task, wait for its value, ns", ""),
		group,
		one("deadline", "(e) Tasks with a deadline, ns a task",
			"A cooperative body looks at its context, and keeps its worker if it does not. Bullpen and the lines with *abandons* give the answer at the deadline in any case."),
		one("queued", "(f) Bytes of a queued closure", "1 000 000 are queued; 100 000 where each is a blocked goroutine (`go`, ants)."),
		one("futures", "(f) Bytes of a queued task with a future", "100 000 wait; the caller's list of futures is counted too."),
		one("idle", "(f) Bytes of an idle worker", "10 000 workers; those of pond and gopool end when there is nothing to do."),
	}
}

// markdown renders the run.
func (r *run) markdown(file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# In-process pools side by side: %s\n\n", r.Date.Format("2006-01-02"))
	fmt.Fprintf(&b, "`%s`: %d rounds, %s a figure; medians, in brackets the least and the most; %d workers. Raw figures: %s. How to read this: [README](../README.md#in-process-pools).\n\n",
		r.Command, r.Rounds, r.Span, workers, file)
	fmt.Fprintf(&b, "Machine: %s, %d processors, %s, Linux %s. Load average before: %s.\n",
		r.Machine.Processor, r.Machine.Processors, r.Machine.Memory, r.Machine.Kernel, r.Machine.Load)
	versions := make([]string, 0, len(r.Machine.Versions))
	for name, text := range r.Machine.Versions {
		versions = append(versions, name+": "+text)
	}
	slices.Sort(versions)
	fmt.Fprintf(&b, "%s.\n", strings.Join(versions, "; "))
	if n := r.disturbed(); n > 0 {
		fmt.Fprintf(&b, "\n**The machine was not quiet:** before %d of %d figures other programs kept the processors more than %d %% busy.\n", n, len(r.Figures), machine.Calm)
	} else {
		fmt.Fprintf(&b, "\nThe machine was quiet: before each figure other programs kept the processors at most %d %% busy.\n", machine.Calm)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s.\n", figure.CellText(n))
	}
	r.goalTable(&b)
	for _, t := range tables() {
		for _, p := range r.Procs {
			r.table(&b, t, p)
		}
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
	system system
	main   figure.Spread
	ok     bool
}

func (r *run) rows(t table, procs int) []row {
	var rows []row
	for _, s := range systems() {
		main, ok := r.figure(s.ID, t.main, t.key(), procs)
		has := ok
		for _, c := range t.columns {
			_, there := r.figure(s.ID, c, t.key(), procs)
			has = has || there
		}
		if has {
			rows = append(rows, row{s, main, ok})
		}
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		if x.ok != y.ok { // those without the main figure go last
			if x.ok {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.main.Median, y.main.Median)
	})
	return rows
}

// key is the metric that a table shows.
func (t table) key() string {
	for _, e := range experiments() {
		if e.ID == t.main && e.Most {
			return "bytes_each"
		}
	}
	return "ns"
}

func (r *run) table(b *strings.Builder, t table, procs int) {
	rows := r.rows(t, procs)
	if len(rows) == 0 {
		return
	}
	memory := t.key() != "ns"
	_, counted := r.figure(rows[0].system.ID, t.main, "instructions", procs)
	fmt.Fprintf(b, "\n## %s, GOMAXPROCS=%d\n\n", t.title, procs)
	if t.note != "" {
		fmt.Fprintf(b, "%s\n\n", t.note)
	}
	head, ns := "| system |", " ns |"
	for i, h := range t.heads {
		head += " " + h + " |"
		if t.columns[i] == t.main {
			ns = " ns of " + h + " |"
		}
	}
	switch {
	case memory:
		head += " bytes |"
	case counted:
		head += ns + " instructions | B | allocations | × channel |"
	default:
		head += ns + " B | allocations | × channel |"
	}
	fmt.Fprintf(b, "%s\n|%s\n", head, strings.Repeat("---|", strings.Count(head, "|")-1))
	base, _ := r.figure(t.base, t.main, "ns", procs)
	for _, w := range rows {
		fmt.Fprintf(b, "| %s |", w.title())
		for _, c := range t.columns[:len(t.heads)] {
			f, ok := r.figure(w.system.ID, c, "ns", procs)
			fmt.Fprintf(b, " %s |", shown(f.Median, ok))
		}
		fmt.Fprintf(b, " %s |", w.text())
		if !memory {
			r.details(b, t, w, procs, counted, base.Median)
		}
		b.WriteString("\n")
	}
	r.quotedRows(b, t, procs, counted)
}

// details are the columns behind the time.
func (r *run) details(b *strings.Builder, t table, w row, procs int, counted bool, base float64) {
	keys := []string{"bytes", "allocs"}
	if counted {
		keys = slices.Insert(keys, 0, "instructions")
	}
	for _, key := range keys {
		f, ok := r.figure(w.system.ID, t.main, key, procs)
		text := shown(f.Median, ok)
		if key == "allocs" && ok {
			text = figure.Number(f.Median, 2)
		}
		fmt.Fprintf(b, " %s |", text)
	}
	text := "-"
	if base > 0 && w.ok {
		text = figure.Ratio(w.main.Median / base)
	}
	fmt.Fprintf(b, " %s |", text)
}

// quotedRows are those of contenders that were measured elsewhere.
func (r *run) quotedRows(b *strings.Builder, t table, procs int, counted bool) {
	if procs != goalProcs {
		return
	}
	for _, q := range quotes() {
		if q.experiment != t.main {
			continue
		}
		columns := 2 + len(t.heads)
		fmt.Fprintf(b, "| *%s (quoted)* |%s %s |", q.title, strings.Repeat(" |", columns-2), figure.Number(q.ns, 0))
		if counted {
			b.WriteString(" |")
		}
		fmt.Fprintf(b, " | | %s of %s |\n", figure.Ratio(q.ns/q.channel), figure.Number(q.channel, 0))
	}
}

// title sets ours in bold and what is no pool in italics.
func (w row) title() string {
	switch w.system.Kind {
	case ours:
		return "**" + w.system.Title + "**"
	case floor:
		return "*" + w.system.Title + "*"
	default:
		return w.system.Title
	}
}

func (w row) text() string {
	switch {
	case !w.ok:
		return "-"
	case w.main.Least == w.main.Most:
		return shown(w.main.Median, true)
	default:
		return fmt.Sprintf("%s (%s..%s)", shown(w.main.Median, true), shown(w.main.Least, true), shown(w.main.Most, true))
	}
}

// shown writes a figure with as many digits as mean something.
func shown(v float64, ok bool) string {
	if !ok {
		return "-"
	}
	if v < 100 {
		return figure.Number(v, 1)
	}
	return figure.Number(v, 0)
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
		fmt.Fprintf(b, "- %s/%s, GOMAXPROCS=%d, round %d: %s\n", m.System, m.Experiment, m.Procs, m.Round, figure.CellText(m.Error))
	}
}
