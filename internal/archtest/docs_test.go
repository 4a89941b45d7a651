package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// checkDocs wants exactly one package comment for each package.
func checkDocs(sources []*source) []fault {
	packages := map[[2]string][]*source{} // by folder and name
	for _, s := range sources {
		if !s.isTest() {
			key := [2]string{s.folder(), s.file.Name.Name}
			packages[key] = append(packages[key], s)
		}
	}
	var faults []fault
	for key, files := range packages {
		folder, name := key[0], key[1]
		var documented []string
		for _, s := range files {
			if s.file.Doc == nil || strings.TrimSpace(s.file.Doc.Text()) == "" {
				continue
			}
			documented = append(documented, s.path)
			if says := docFault(s.file.Doc, folder, name); says != "" {
				faults = append(faults, fault{"doc", s.path, says})
			}
		}
		switch len(documented) {
		case 0:
			faults = append(faults, fault{"doc", folder, "package " + name + " has no package comment: say what it is for, for a stranger"})
		case 1:
		default:
			slices.Sort(documented)
			faults = append(faults, fault{"doc", folder, fmt.Sprintf("package %s has %d package comments, in %s: keep one", name, len(documented), strings.Join(documented, " and "))})
		}
	}
	return faults
}

func docFault(doc *ast.CommentGroup, folder, name string) string {
	text := doc.Text()
	if name != "main" {
		if !strings.HasPrefix(text, "Package "+name+" ") {
			return "the package comment does not begin with \"Package " + name + "\""
		}
		return ""
	}
	command := path.Base(folder)
	first, _, _ := strings.Cut(text, " ")
	second := strings.TrimPrefix(text, first+" ")
	if strings.EqualFold(first, command) || first == "Command" && strings.HasPrefix(second, command+" ") {
		return ""
	}
	return "the comment of a command begins with its name or \"Command " + command + "\""
}

// checkNames finds packages whose names say nothing.
func checkNames(sources []*source) []fault {
	var faults []fault
	seen := map[string]bool{}
	for _, s := range sources {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		for _, n := range slices.Compact([]string{path.Base(s.folder()), name}) {
			folder := s.folder()
			if slices.Contains(badNames, n) && !seen[folder+n] {
				seen[folder+n] = true
				faults = append(faults, fault{"name", folder, "the name " + n + " says nothing: name the package after what it holds"})
			}
		}
		if strings.ContainsAny(name, "_") || name != strings.ToLower(name) {
			faults = append(faults, fault{"name", s.path, "the package name " + name + " is not one lower-case word"})
		}
	}
	slices.SortFunc(faults, func(a, b fault) int { return cmp.Compare(a.subject, b.subject) })
	return faults
}

// checkComments finds comments that name something else than what they stand at, as
// those do that a cut between files has torn off, and comments on locks in another form.
func checkComments(sources []*source) []fault {
	var faults []fault
	for _, s := range sources {
		look := func(name *ast.Ident, doc *ast.CommentGroup) {
			first, _, _ := strings.Cut(strings.TrimSpace(doc.Text()), " ")
			first = strings.TrimRight(first, ",.:\n")
			if first != "" && first[0] >= 'a' && first[0] <= 'z' && first != name.Name {
				faults = append(faults, fault{"comment", s.path, "the comment of " + name.Name + " begins with " + first + ": begin it with the name, or with a capital letter"})
			}
		}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if strings.Contains(c.Text, "+checklocks") {
					faults = append(faults, fault{"comment", s.path, fmt.Sprintf("line %d has a comment for a tool that is not used: write \"guarded by mu\" or \"mu is held.\"", s.line(c.Pos()))})
				}
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				look(d.Name, d.Doc)
			case *ast.GenDecl:
				if len(d.Specs) != 1 {
					continue
				}
				if t, is := d.Specs[0].(*ast.TypeSpec); is {
					look(t.Name, d.Doc)
				}
			}
		}
	}
	return faults
}

func TestComments(t *testing.T) {
	t.Parallel()
	report(t, checkComments(checkout(t)), "comment")
}

func TestBadCommentsAreFound(t *testing.T) {
	t.Parallel()
	wantFaults(t, checkComments(synthetic(t, map[string]string{
		"torn/a.go": "package torn\n\n// is left of another.\nfunc a() {}\n",
		"old/a.go":  "package old\n\n// before was its name.\ntype now struct{}\n",
		"lock/a.go": "package lock\n\ntype t struct {\n\ta int // +checklocks:mu\n\tb int // guarded by mu\n}\n",
		"good/a.go": "package good\n\n// a does it.\nfunc a() {}\n\n// Of b this says all.\nfunc b() {}\n\n// t, which holds all.\ntype t int\n\nfunc c() {}\n",
	})), "comment: lock/a.go: line 4 has a comment", "comment: old/a.go: the comment of now begins with before", "comment: torn/a.go: the comment of a begins with is")
}

func TestPackageDocs(t *testing.T) {
	t.Parallel()
	report(t, checkDocs(checkout(t)), "doc")
}

func TestPackageNames(t *testing.T) {
	t.Parallel()
	report(t, checkNames(checkout(t)), "name")
}

func TestBadDocsAreFound(t *testing.T) {
	t.Parallel()
	wantFaults(t, checkDocs(synthetic(t, map[string]string{
		"none/a.go":         "package none\n",
		"none/a_test.go":    "// Package none has its doc in the wrong place.\npackage none\n",
		"two/a.go":          "// Package two is documented.\npackage two\n",
		"two/b_darwin.go":   "// Package two is documented elsewhere too.\npackage two\n",
		"other/a.go":        "// Something else.\npackage other\n",
		"good/a.go":         "// Package good is for all.\npackage good\n",
		"good/b.go":         "//go:build linux\n\npackage good\n",
		"only/a_test.go":    "package only\n",
		"cmd/bullpen/a.go":  "// Bullpen runs tasks.\npackage main\n",
		"cmd/command/a.go":  "// Command command runs tasks.\npackage main\n",
		"cmd/nameless/a.go": "// This runs tasks.\npackage main\n",
	})),
		"doc: cmd/nameless/a.go: the comment of a command begins with its name",
		"doc: none: package none has no package comment",
		"doc: other/a.go: the package comment does not begin",
		"doc: two: package two has 2 package comments, in two/a.go and two/b_darwin.go",
	)
}

func TestBadNamesAreFound(t *testing.T) {
	t.Parallel()
	wantFaults(t, checkNames(synthetic(t, map[string]string{
		"util/a.go":       "package util\n",
		"util/b.go":       "package util\n",
		"core/a.go":       "package heart\n",
		"good/a.go":       "package good\n",
		"good/a_test.go":  "package good_test\n",
		"under/a.go":      "package under_score\n",
		"internal/x/a.go": "package x\n",
	})), "name: core: the name core", "name: under/a.go: the package name under_score", "name: util: the name util")
}
