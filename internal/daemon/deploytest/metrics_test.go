package deploytest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metric is a row of the list.
type metric struct{ name, labels, kind, meaning string }

// adapters are the packages whose comments list their metrics; their own tests
// hold these lists against what is collected.
var adapters = []struct{ title, file, note string }{
	{"Pools of worker processes", "process/processprom/collector.go", "`process/processprom`; shown by the daemon for each pool."},
	{"Queue and store", "queue/queueprom/collector.go", "`queue/queueprom`; shown by the daemon. What waits is said by the store, the same by all daemons on it: take the maximum over them, not the sum."},
	{"Goroutine pools", "pool/poolprom/collector.go", "`pool/poolprom`; for programs that embed goroutine pools. The daemon has none."},
}

// rowOf reads a line such as "bullpen_x{a,b}  gauge  meaning".
var rowOf = regexp.MustCompile(`^\s+(bullpen_\w+)(?:\{([\w,]*)\})?\s+(gauge|counter|histogram)(?:\s+(.*))?$`)

// listed reads the metrics of a package comment.
func listed(t *testing.T, path string) []metric {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(path)), nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var all []metric
	for line := range strings.Lines(file.Doc.Text()) {
		if m := rowOf.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			all = append(all, metric{m[1], m[2], m[3], m[4]})
		}
	}
	if len(all) < 5 {
		t.Fatalf("%s lists only %d metrics", path, len(all))
	}
	return all
}

// daemonMetrics finds the names and help texts of the daemon's own metrics in its
// source.
func daemonMetrics(t *testing.T) []metric {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal", "daemon", "metrics.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []metric
	vectors := map[ast.Expr]ast.Expr{} // the labels of vectors, by their options
	add := func(kind string, name, help, labels ast.Expr) {
		n, h := literal(name), literal(help)
		if strings.HasPrefix(n, "bullpen_") {
			all = append(all, metric{n, strings.Join(keys(labels), ","), kind, strings.TrimSuffix(h, ".")})
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if len(n.Args) == 2 && len(opts(n.Args[0])) > 0 { // of NewCounterVec and its like
				vectors[n.Args[0]] = n.Args[1]
			}
			if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) >= 2 && (f.Name == "gauge" || f.Name == "counter") {
				add(f.Name, n.Args[0], n.Args[1], nil)
			}
		case *ast.CompositeLit:
			s, ok := n.Type.(*ast.SelectorExpr)
			if !ok || !strings.HasSuffix(s.Sel.Name, "Opts") {
				break
			}
			fields := opts(n)
			labels := fields["ConstLabels"]
			if by := vectors[n]; by != nil {
				labels = by
			}
			add(strings.ToLower(strings.TrimSuffix(s.Sel.Name, "Opts")), fields["Name"], fields["Help"], labels)
		}
		return true
	})
	if len(all) < 3 {
		t.Fatalf("internal/daemon/metrics.go has only %d metrics: is it read rightly?", len(all))
	}
	return all
}

// opts are the fields of a literal of options of a metric.
func opts(e ast.Expr) map[string]ast.Expr {
	c, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	fields := map[string]ast.Expr{}
	for _, e := range c.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			fields[fmt.Sprint(pair.Key)] = pair.Value
		}
	}
	return fields
}

// keys are the keys of a literal of a map, or the values of one of a list.
func keys(e ast.Expr) (all []string) {
	if c, ok := e.(*ast.CompositeLit); ok {
		for _, e := range c.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				all = append(all, literal(pair.Key))
			} else {
				all = append(all, literal(e))
			}
		}
	}
	return all
}

// literal is the text of a string literal, or empty.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if text, err := strconv.Unquote(l.Value); err == nil {
			return text
		}
	}
	return ""
}

// everyMetric is all that are listed anywhere.
func everyMetric(t *testing.T) []metric {
	t.Helper()
	all := daemonMetrics(t)
	for _, a := range adapters {
		all = append(all, listed(t, a.file)...)
	}
	return all
}

func table(title, note string, all []metric) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n%s\n\n| metric | labels | type | meaning |\n|---|---|---|---|\n", title, note)
	for _, m := range all {
		meaning := strings.ReplaceAll(m.meaning, "|", `\|`)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, strings.ReplaceAll(m.labels, ",", ", "), m.kind, meaning)
	}
	return b.String()
}

// begin is where the written part of docs/metrics.md ends and the made one begins.
const begin = "<!-- From here on this page is made from the code: go test ./internal/daemon/deploytest -update -->\n"

// TestTheMetricsPage holds docs/metrics.md against the lists in the code.
func TestTheMetricsPage(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/metrics.md")
	written, _, ok := strings.Cut(page, begin)
	if !ok {
		t.Fatalf("docs/metrics.md has no line %q", begin)
	}
	parts := []string{
		written, begin,
		table("The daemon", "`bullpen serve`, besides those of the Go runtime (`go_…`) and of the process (`process_…`).", daemonMetrics(t)),
	}
	for _, a := range adapters {
		parts = append(parts, table(a.title, a.note, listed(t, a.file)))
	}
	want := strings.Join(parts, "")
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs", "metrics.md"), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != want {
		t.Error("docs/metrics.md is not what the code lists; run: go test ./internal/daemon/deploytest -update")
	}
}

// TestEveryNamedMetricIsThere looks for names in prose and alerts.
func TestEveryNamedMetricIsThere(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, m := range everyMetric(t) {
		known[m.name] = true
		if m.kind == "histogram" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				known[m.name+end] = true
			}
		}
	}
	name := regexp.MustCompile(`\bbullpen_[a-z][a-z0-9_]*`) // a digit begins the version in the name of a file
	for _, path := range []string{"deploy/grafana/alerts.yaml", "deploy/grafana/bullpen.json", "deploy/README.md", "docs/metrics.md", "docs/operations.md", "docs/traces.md"} {
		found := name.FindAllString(read(t, path), -1)
		slices.Sort(found)
		for _, f := range slices.Compact(found) {
			if !known[strings.TrimSuffix(f, "_")] {
				t.Errorf("%s names %s, which nothing shows", path, f)
			}
		}
	}
}

// TestNoMetricIsListedTwice wants each name once.
func TestNoMetricIsListedTwice(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range everyMetric(t) {
		if seen[m.name] {
			t.Errorf("%s is listed twice", m.name)
		}
		seen[m.name] = true
	}
}
