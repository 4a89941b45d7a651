// Command promql reads the Grafana board and the rules of Prometheus with the parser
// of Prometheus, and holds every metric and label in them against docs/metrics.md,
// which a test holds against the code:
//
//	go -C tools/promql run . ../..
//
// It has a module of its own: the parser is for this check only.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	n, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("promql: %d expressions are right\n", n)
}

// check checks all expressions, and tells how many there are.
func check(root string) (n int, err error) {
	known, err := metrics(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		return 0, err
	}
	board, err := expressionsOfBoard(filepath.Join(root, "deploy", "grafana", "bullpen.json"))
	if err != nil {
		return 0, err
	}
	rules, err := expressionsOfRules(filepath.Join(root, "deploy", "grafana", "alerts.yaml"))
	if err != nil {
		return 0, err
	}
	var errs []error
	all := append(board, rules...)
	for _, e := range all {
		errs = append(errs, known.check(e))
	}
	return len(all), errors.Join(errs...)
}

// expression is one with the place where it stands.
type expression struct{ at, text string }

// labelsOf has the labels of each metric.
type labelsOf map[string][]string

var row = regexp.MustCompile("^\\| `(\\w+)` \\| ([^|]*) \\| (\\w+) \\|")

// ofPrometheus are the labels that a scrape adds, and those of the runtime.
var ofPrometheus = []string{"instance", "job", "le"}

// metrics reads the tables of the page.
func metrics(path string) (labelsOf, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := labelsOf{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil, "process_open_fds": nil, "process_max_fds": nil, "go_goroutines": nil}
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		names := []string{m[1]}
		if m[3] == "histogram" {
			names = []string{m[1] + "_bucket", m[1] + "_sum", m[1] + "_count"}
		}
		for _, name := range names {
			all[name] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	if len(all) < 50 {
		return nil, fmt.Errorf("%s lists only %d metrics", path, len(all))
	}
	return all, nil
}

func (k labelsOf) has(metric, label string) bool {
	return slices.Contains(k[metric], label) || slices.Contains(ofPrometheus, label)
}

// variables stand in the board for what is chosen in it.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$instance", "a", "$pool", "p", "$queue", "q")

// check parses an expression.
func (k labelsOf) check(e expression) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(e.text))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", e.at, e.text, err)
	}
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(e.at+": "+e.text+": "+format, args...))
	}
	var metrics []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if _, known := k[s.Name]; !known {
			fault("there is no metric %q", s.Name)
			return nil
		}
		metrics = append(metrics, s.Name)
		for _, m := range s.LabelMatchers {
			if m.Name != labels.MetricName && !k.has(s.Name, m.Name) {
				fault("%s has no label %q", s.Name, m.Name)
			}
		}
		return nil
	})
	// A label that is grouped by must be there in one of the metrics.
	grouped := func(by []string) {
		for _, label := range by {
			if !slices.ContainsFunc(metrics, func(m string) bool { return k.has(m, label) }) {
				fault("nothing has the label %q", label)
			}
		}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			grouped(n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped(n.VectorMatching.MatchingLabels)
				grouped(n.VectorMatching.Include)
			}
		}
		return nil
	})
	return errors.Join(errs...)
}

// panel is a panel of a board, as far as it has expressions.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel
}

func expressionsOfBoard(path string) ([]expression, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var board struct{ Panels []panel }
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []expression
	var collect func(panels []panel)
	collect = func(panels []panel) {
		for _, p := range panels {
			for _, t := range p.Targets {
				all = append(all, expression{"board: " + p.Title, t.Expr})
			}
			collect(p.Panels)
		}
	}
	collect(board.Panels)
	if len(all) < 20 {
		return nil, fmt.Errorf("%s has only %d expressions", path, len(all))
	}
	return all, nil
}

func expressionsOfRules(path string) ([]expression, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []expression
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, expression{"rule " + r.Alert, r.Expr})
		}
	}
	if len(all) < 10 {
		return nil, fmt.Errorf("%s has only %d rules", path, len(all))
	}
	return all, nil
}
