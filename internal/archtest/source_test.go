package archtest

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is one Go file of the checkout.
type source struct {
	path   string // from the root, with slashes
	nested bool   // it belongs to a module of its own (bench, tools)
	lines  int
	set    *token.FileSet
	file   *ast.File
}

func (s *source) folder() string { return path.Dir(s.path) }
func (s *source) isTest() bool   { return strings.HasSuffix(s.path, "_test.go") }

// imports returns the import paths of s.
func (s *source) imports() []string {
	all := make([]string, 0, len(s.file.Imports))
	for _, i := range s.file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// line returns the line number of a position in s.
func (s *source) line(p token.Pos) int { return s.set.Position(p).Line }

// fault is one broken rule. Its key is what an exception names.
type fault struct {
	rule    string // such as "size"
	subject string // such as "process/pool.go"
	says    string // what is wrong and what to do
}

func (f fault) key() string    { return f.rule + ": " + f.subject }
func (f fault) String() string { return f.key() + ": " + f.says }

// parse makes a source of one file's text.
func parse(name string, text []byte) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		lines++
	}
	return &source{path: name, lines: lines, set: set, file: file}, nil
}

// load reads every Go file below root that people wrote. Build tags are not
// looked at: the rules hold on every system.
func load(root string) ([]*source, error) {
	var all []*source
	var modules []string // folders of modules below the root
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			if rel != "." && skipped(e.Name()) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && rel != "." {
				modules = append(modules, rel)
			}
			return nil
		}
		if path.Ext(rel) != ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s, err := parse(rel, text)
		if err != nil {
			return err
		}
		s.nested = slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(rel, m+"/") })
		if !ast.IsGenerated(s.file) {
			all = append(all, s)
		}
		return nil
	})
	return all, err
}

// skipped reports whether the go command, too, passes over a folder.
func skipped(name string) bool {
	return name == "testdata" || name == "vendor" || name == "node_modules" ||
		strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// judge takes out the faults that have an exception, and adds one for each
// exception of one of these rules that no fault needs.
func judge(faults []fault, exceptions map[string]string, rules ...string) []fault {
	needed := map[string]bool{}
	var left []fault
	for _, f := range faults {
		if exceptions[f.key()] != "" {
			needed[f.key()] = true
			continue
		}
		left = append(left, f)
	}
	for key, reason := range exceptions {
		rule, subject, _ := strings.Cut(key, ": ")
		switch {
		case !slices.Contains(rules, rule):
		case reason == "":
			left = append(left, fault{rule, subject, "the exception has no reason: write one beside it"})
		case !needed[key]:
			left = append(left, fault{rule, subject, "the exception is no longer needed: take it out of exceptions in internal/archtest/rules_test.go"})
		}
	}
	slices.SortFunc(left, func(a, b fault) int { return cmp.Compare(a.String(), b.String()) })
	return left
}

func report(t *testing.T, faults []fault, rules ...string) {
	t.Helper()
	for _, f := range judge(faults, exceptions, rules...) {
		t.Error(f)
	}
}

// whole loads the files of this checkout once for all tests, which change none.
var whole = sync.OnceValues(func() ([]*source, error) { return load(filepath.Join("..", "..")) })

// checkout returns the files of this checkout.
func checkout(t *testing.T) []*source {
	t.Helper()
	all, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d Go files found: is the root of the checkout two folders up?", len(all))
	}
	return all
}

// synthetic parses files that exist only in a test.
func synthetic(t *testing.T, files map[string]string) []*source {
	t.Helper()
	var all []*source
	for name, text := range files {
		s, err := parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// wantFaults compares faults with what a test expects: one part of the text of
// each, in sorted order.
func wantFaults(t *testing.T, got []fault, want ...string) {
	t.Helper()
	texts := make([]string, len(got))
	for i, f := range got {
		texts[i] = f.String()
	}
	slices.Sort(texts)
	if len(texts) != len(want) {
		t.Fatalf("%d faults, want %d:\n%s", len(texts), len(want), strings.Join(texts, "\n"))
	}
	for i, w := range want {
		if !strings.Contains(texts[i], w) {
			t.Errorf("fault %d is %q, want it to say %q", i, texts[i], w)
		}
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	faults := []fault{{"size", "a.go", "long"}, {"size", "b.go", "long"}}
	wantFaults(t, judge(faults, map[string]string{"size: a.go": "a table", "size: c.go": "was long once", "size: b.go": ""}, "size"),
		"size: b.go: long", "size: b.go: the exception has no reason", "size: c.go: the exception is no longer needed")
	wantFaults(t, judge(nil, map[string]string{"sleep: c.go": "of another rule"}, "size"))
}

func TestLoadSeesTheWholeCheckout(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m", "a.go": "package m", "a_plan9.go": "package m", "in/b.go": "package in",
		"bench/go.mod": "module b", "bench/c.go": "package b", "testdata/d.go": "broken", ".x/e.go": "broken",
		"in/gen.go": "// Code generated by a program. DO NOT EDIT.\n\npackage in",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprint(s.path, " ", s.nested))
	}
	want := []string{"a.go false", "a_plan9.go false", "bench/c.go true", "in/b.go false"}
	if !slices.Equal(got, want) {
		t.Errorf("load() = %q, want %q", got, want)
	}
}
