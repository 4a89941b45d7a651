package deploytest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// board has what the tests look at in deploy/grafana/bullpen.json.
type board struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Query any }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr, LegendFormat, RefID string
		Datasource                struct{ UID string }
	}
	Panels []panel // of a row that is folded
}

func readBoard(t *testing.T) *board {
	t.Helper()
	var b board
	if err := json.NewDecoder(bytes.NewBufferString(read(t, "deploy/grafana/bullpen.json"))).Decode(&b); err != nil {
		t.Fatal(err)
	}
	return &b
}

// every calls f for all panels, those of folded rows too.
func every(panels []panel, f func(*panel)) {
	for i := range panels {
		f(&panels[i])
		every(panels[i].Panels, f)
	}
}

// TestBoard wants each panel to say what it shows, in which unit, from the source
// that is chosen, and not to lie over another.
func TestBoard(t *testing.T) {
	t.Parallel()
	b := readBoard(t)
	seen := map[int]bool{}
	n := 0
	every(b.Panels, func(p *panel) {
		if seen[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q has no id or title of its own", p.ID, p.Title)
		}
		seen[p.ID] = true
		if g := p.GridPos; g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%q is outside of the board: %+v", p.Title, g)
		}
		if p.Type == "row" {
			return
		}
		n++
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%q lacks a description, a unit, an expression or the source that is chosen", p.Title)
		}
		refs := map[string]bool{}
		for _, e := range p.Targets {
			if e.Expr == "" || e.LegendFormat == "" || refs[e.RefID] || e.Datasource.UID != "${datasource}" {
				t.Errorf("%q has an expression without a legend, a name of its own or the source: %+v", p.Title, e)
			}
			refs[e.RefID] = true
		}
	})
	if n < 25 || b.UID != "bullpen" || b.SchemaVersion < 39 {
		t.Errorf("the board %q has %d panels in version %d", b.UID, n, b.SchemaVersion)
	}
	for i, p := range b.Panels {
		for _, other := range b.Panels[:i] {
			if p, q := p.GridPos, other.GridPos; p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("%q lies over %q", b.Panels[i].Title, other.Title)
			}
		}
	}
}

// TestBoardVariables wants each variable to be there that is used, and used.
func TestBoardVariables(t *testing.T) {
	t.Parallel()
	b, text := readBoard(t), read(t, "deploy/grafana/bullpen.json")
	for _, v := range b.Templating.List {
		name, ok := v.Name.(string)
		if !ok || !strings.Contains(text, "$"+name) && !strings.Contains(text, "${"+name+"}") {
			t.Errorf("the variable %v is not used", v.Name)
		}
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		known := slices.ContainsFunc(b.Templating.List, func(v struct{ Name, Type, Query any }) bool { return v.Name == m[1] })
		if !known && m[1] != "__rate_interval" && m[1] != "__all" {
			t.Errorf("there is no variable %s", m[0])
		}
	}
}

var (
	selectorOf = regexp.MustCompile(`(bullpen_\w+)(?:\{([^{}]*(?:"[^"]*"[^{}]*)*)\})?`)
	matcherOf  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
	groupingOf = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	functionOf = regexp.MustCompile(`\b([a-z_]+)\s*\(`)
	quotedOf   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// functions are those that the expressions may use.
var functions = []string{"sum", "max", "min", "rate", "increase", "deriv", "histogram_quantile", "topk", "by", "on", "and"}

// TestExpressions reads the expressions of the board and the rules: metrics with
// their labels must be there, and brackets match. tools/promql reads them with the
// parser of Prometheus.
func TestExpressions(t *testing.T) {
	t.Parallel()
	labels := map[string][]string{}
	for _, m := range everyMetric(t) {
		own := strings.FieldsFunc(m.labels, func(r rune) bool { return r == ',' || r == ' ' })
		own = append(own, "instance", "job")
		if labels[m.name] = own; m.kind == "histogram" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				labels[m.name+end] = append(slices.Clone(own), "le")
			}
		}
	}
	n := 0
	check := func(at, expr string) {
		n++
		var all []string // labels of its metrics
		for _, m := range selectorOf.FindAllStringSubmatch(expr, -1) {
			known, ok := labels[m[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", at, m[1])
			}
			all = append(all, known...)
			for _, l := range matcherOf.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(known, l[1]) {
					t.Errorf("%s: %s has no label %s", at, m[1], l[1])
				}
			}
		}
		bare := quotedOf.ReplaceAllString(expr, `""`)
		for _, g := range groupingOf.FindAllStringSubmatch(bare, -1) {
			for label := range strings.SplitSeq(g[1], ",") {
				if !slices.Contains(all, strings.TrimSpace(label)) {
					t.Errorf("%s: nothing has the label %q", at, label)
				}
			}
		}
		for _, f := range functionOf.FindAllStringSubmatch(bare, -1) {
			if !slices.Contains(functions, f[1]) {
				t.Errorf("%s: is %s a function?", at, f[1])
			}
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(bare, pair[:1]) != strings.Count(bare, pair[1:]) {
				t.Errorf("%s: the brackets %s do not match: %s", at, pair, expr)
			}
		}
	}
	every(readBoard(t).Panels, func(p *panel) {
		for _, e := range p.Targets {
			check("board: "+p.Title, e.Expr)
		}
	})
	for _, r := range readRules(t) {
		check("rule: "+r.Alert, r.Expr)
	}
	if n < 60 {
		t.Errorf("only %d expressions were read", n)
	}
}

// TestRunbook wants docs/operations.md to say for each alert what to do, and for no
// other.
func TestRunbook(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/operations.md")
	var named []string
	for _, m := range regexp.MustCompile(`(?m)^### (Bullpen\w+)$`).FindAllStringSubmatch(page, -1) {
		named = append(named, m[1])
	}
	var alerts []string
	for _, r := range readRules(t) {
		alerts = append(alerts, r.Alert)
	}
	slices.Sort(named)
	slices.Sort(alerts)
	if !slices.Equal(named, alerts) {
		t.Errorf("docs/operations.md has\n%q\nand the alerts are\n%q", named, alerts)
	}
}

// TestGrafanaFiles holds what Grafana is given against its keys.
func TestGrafanaFiles(t *testing.T) {
	t.Parallel()
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `yaml:"isDefault"`
			JSONData                     map[string]any `yaml:"jsonData"`
		}
	}
	strict(t, "deploy/grafana/datasources.yaml", &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("the sources are %+v", sources.Datasources)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type     string
			AllowUIUpdates bool `yaml:"allowUiUpdates"`
			Options        struct{ Path string }
		}
	}
	strict(t, "deploy/grafana/dashboards.yaml", &providers)
	s := composed(t).Services["grafana"]
	if len(providers.Providers) != 1 || !slices.ContainsFunc(s.Volumes, func(m string) bool {
		return strings.HasPrefix(m, "./grafana/bullpen.json:"+providers.Providers[0].Options.Path+"/")
	}) {
		t.Errorf("the board is not where Grafana looks: %+v and %v", providers.Providers, s.Volumes)
	}
	if !slices.Equal(s.Profiles, []string{"boards"}) {
		t.Errorf("Grafana starts with the profiles %v", s.Profiles)
	}
}
