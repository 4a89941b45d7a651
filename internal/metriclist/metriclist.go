// Package metriclist holds the list of metrics in a package's comment against what
// its collector describes, for tests.
package metriclist

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Check fails t unless the package comment in a file lists just the metrics that c
// describes, with their labels, and each under a name of its own in the OpenMetrics
// format too.
func Check(t *testing.T, file string, c prometheus.Collector) {
	t.Helper()
	documented, err := documented(file)
	if err != nil {
		t.Fatal(err)
	}
	to := make(chan *prometheus.Desc)
	go func() { // ends when all is read below
		defer close(to)
		c.Describe(to)
	}()
	var described []string
	for d := range to {
		name, ok := nameOf(d)
		if !ok {
			t.Errorf("what is %s?", d)
		}
		described = append(described, name)
	}
	for _, d := range described {
		base, _, _ := strings.Cut(d, "{")
		if base, ok := strings.CutSuffix(base, "_total"); ok && slices.ContainsFunc(described, func(other string) bool {
			name, _, _ := strings.Cut(other, "{")
			return name == base
		}) {
			t.Errorf("%s and %s_total are one name in the OpenMetrics format", base, base)
		}
	}
	slices.Sort(described)
	if !slices.Equal(documented, described) {
		t.Errorf("documented are\n%s\nand described are\n%s", strings.Join(documented, "\n"), strings.Join(described, "\n"))
	}
}

// documented reads the list, sorted.
func documented(file string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(f.Doc.Text()) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[0], "bullpen_") {
			all = append(all, fields[0])
		}
	}
	slices.Sort(all)
	return all, nil
}

// nameOf takes name and labels out of what a description prints.
func nameOf(d *prometheus.Desc) (string, bool) {
	_, rest, ok := strings.Cut(d.String(), `fqName: "`)
	name, rest, ok2 := strings.Cut(rest, `"`)
	_, labels, ok3 := strings.Cut(rest, "variableLabels: {")
	labels, _, ok4 := strings.Cut(labels, "}")
	if labels != "" {
		name += "{" + labels + "}"
	}
	return name, ok && ok2 && ok3 && ok4
}
