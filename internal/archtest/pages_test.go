package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longestReadme is how many lines the README has at most.
const longestReadme = 150

// TestPages follows the links between the pages of this repository: each names a file
// that is there, and a heading in it.
func TestPages(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "deploy/*/*.md", "bench/*.md", "bench/results/*.md", "sdk/*/*.md", "protocol/*.md"} {
		names, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = string(text)
		}
	}
	for name, text := range pages {
		for _, link := range links(text) {
			file, heading, _ := strings.Cut(link, "#")
			to := filepath.Join(filepath.Dir(name), file)
			if file == "" {
				to = name
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: links to %s, which is not there", name, link)
			} else if page, is := pages[to]; is && heading != "" && !headings(page)[heading] {
				t.Errorf("%s: links to %s, and there is no such heading", name, link)
			}
		}
	}
	rationale := pages[filepath.Join("..", "..", "RATIONALE.md")]
	for heading := range headings(rationale) {
		if heading != "rationale" && heading != "contents" && !strings.Contains(rationale, "](#"+heading+")") {
			t.Errorf("RATIONALE.md: its contents do not have #%s", heading)
		}
	}
	if n := strings.Count(pages[filepath.Join("..", "..", "README.md")], "\n"); n > longestReadme {
		t.Errorf("README.md has %d lines: use %d at most, and link to a page of docs", n, longestReadme)
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	unnamed = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// links returns the links of a page that stay in this repository.
func links(page string) (all []string) {
	for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		if !strings.Contains(m[1], ":") {
			all = append(all, m[1])
		}
	}
	return all
}

// headings returns the headings of a page, as links name them.
func headings(page string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(fenced.ReplaceAllString(page, "")) {
		if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") {
			name := unnamed.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return all
}
