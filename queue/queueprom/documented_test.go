package queueprom

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTheListIsComplete holds the list of the package comment against the metrics
// that the collector describes, with their labels.
func TestTheListIsComplete(t *testing.T) {
	t.Parallel()
	var documented []string
	file, err := parser.ParseFile(token.NewFileSet(), "collector.go", nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(file.Doc.Text()) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[0], "bullpen_") {
			documented = append(documented, fields[0])
		}
	}
	to := make(chan *prometheus.Desc, 100)
	(&Collector{}).Describe(to)
	close(to)
	var described []string
	for d := range to {
		described = append(described, nameOf(t, d))
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
	slices.Sort(documented)
	slices.Sort(described)
	if !slices.Equal(documented, described) {
		t.Errorf("documented are\n%s\nand described are\n%s", strings.Join(documented, "\n"), strings.Join(described, "\n"))
	}
}

// nameOf takes name and labels out of what a description prints.
func nameOf(t *testing.T, d *prometheus.Desc) string {
	t.Helper()
	_, rest, ok := strings.Cut(d.String(), `fqName: "`)
	name, rest, ok2 := strings.Cut(rest, `"`)
	_, labels, ok3 := strings.Cut(rest, "variableLabels: {")
	labels, _, ok4 := strings.Cut(labels, "}")
	if !ok || !ok2 || !ok3 || !ok4 {
		t.Fatalf("what is %s?", d)
	}
	if labels == "" {
		return name
	}
	return name + "{" + labels + "}"
}
