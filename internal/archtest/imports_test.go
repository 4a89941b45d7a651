package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// ruleOf returns the row for a folder: the one with the longest name that is
// the folder or stands above it. The row of the root is for the root alone.
func ruleOf(folder string) (rule, bool) {
	for f := folder; ; f = path.Dir(f) {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.folder == f })
		if i >= 0 && (f != "." || folder == ".") {
			return rules[i], true
		}
		if f == "." {
			return rule{}, false
		}
	}
}

// local returns the folder of a package of ours.
func local(importPath string) (folder string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// standard reports whether importPath is of the standard library.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && importPath != "C"
}

// within reports whether importPath is root or below it.
func within(importPath, root string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}

// checkImports holds every import against the table.
func checkImports(sources []*source) []fault {
	var faults []fault
	unlisted := map[string]bool{}
	for _, s := range sources {
		if s.nested {
			continue
		}
		r, ok := ruleOf(s.folder())
		if !ok {
			if !unlisted[s.folder()] {
				unlisted[s.folder()] = true
				faults = append(faults, fault{"import", s.folder(), "this package is in no row of the table of who may import whom: " +
					"add a row to rules in internal/archtest/rules_test.go that says what it may import, and its name to the rows that may import it"})
			}
			continue
		}
		for _, p := range s.imports() {
			if says := r.refuses(p, s.isTest()); says != "" {
				faults = append(faults, fault{"import", s.path, "imports " + p + ": " + says})
			}
		}
	}
	return faults
}

// refuses says why a file of the row r may not import a package; empty when it
// may.
func (r rule) refuses(importPath string, test bool) string {
	if standard(importPath) {
		if within(importPath, "testing") && !test && !slices.Contains(testingAllowed, r.folder) {
			return "test libraries do not belong into product code; move the file to a _test.go file"
		}
		return ""
	}
	if target, ours := local(importPath); ours {
		return r.refusesOurs(target, test)
	}
	theirs := slices.Clone(r.theirs)
	if test {
		theirs = append(theirs, forTests.theirs...)
	}
	if slices.ContainsFunc(theirs, func(t string) bool { return within(importPath, t) }) {
		return ""
	}
	if within(importPath, "golang.org/x/sys") {
		return "system calls stand in internal/confine, internal/probe and internal/wire only; ask one of these for what you need"
	}
	return "the row of " + r.folder + " does not list it; a new dependency wants a reason in RATIONALE.md and its place in rules"
}

func (r rule) refusesOurs(target string, test bool) string {
	t, ok := ruleOf(target)
	switch {
	case !ok:
		return "it is in no row of rules in internal/archtest/rules_test.go; add one"
	case t.folder == r.folder, slices.Contains(r.ours, t.folder):
		return ""
	case test && (slices.Contains(forTests.ours, t.folder) || slices.Contains(r.tests, t.folder)):
		return ""
	case t.folder == "internal/lifecycle" && !slices.Contains(lifecycleBarred, r.folder):
		return ""
	}
	if len(r.ours) == 0 {
		return r.folder + " imports nothing of ours"
	}
	return r.folder + " may import only these of ours: " + strings.Join(r.ours, ", ")
}

// checkRawCalls finds system calls by number outside the packages for them.
func checkRawCalls(sources []*source) []fault {
	var faults []fault
	for _, s := range sources {
		if r, ok := ruleOf(s.folder()); s.nested || !ok || slices.Contains(rawCallsAllowed, r.folder) {
			continue
		}
		name := s.nameOf("syscall")
		if name == "" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && isPackage(sel.X, name) && rawCall(sel.Sel.Name) {
				faults = append(faults, fault{"rawcall", s.path, sel.Sel.Name + " makes a system call by number; that is for " + strings.Join(rawCallsAllowed, ", ")})
			}
			return true
		})
	}
	return faults
}

func rawCall(name string) bool {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "AllThreads"), "Raw")
	number, ok := strings.CutPrefix(name, "Syscall")
	return ok && strings.Trim(number, "0123456789N") == ""
}

// nameOf returns the name under which s knows an imported package, empty when
// it does not import it.
func (s *source) nameOf(importPath string) string {
	for _, i := range s.file.Imports {
		if strings.Trim(i.Path.Value, "`\"") != importPath {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

func isPackage(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

func TestWhoImportsWhom(t *testing.T) {
	t.Parallel()
	report(t, checkImports(checkout(t)), "import")
}

func TestWhoMakesRawCalls(t *testing.T) {
	t.Parallel()
	report(t, checkRawCalls(checkout(t)), "rawcall")
}

func TestRulesAreSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.folder] {
			t.Errorf("%s has two rows", r.folder)
		}
		seen[r.folder] = true
	}
	for _, r := range append(slices.Clone(rules), forTests) {
		for _, o := range r.ours {
			if !seen[o] {
				t.Errorf("the row of %q lists %s, which has no row", r.folder, o)
			}
		}
	}
	for _, o := range slices.Concat(lifecycleBarred, testingAllowed, rawCallsAllowed) {
		if !seen[o] {
			t.Errorf("%s is named in a list and has no row", o)
		}
	}
}

func TestForbiddenImportsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, imports, want string }{
		{"doc.go", "fmt", ""},
		{"doc.go", module + "/pool", ". may import only these of ours: internal/durations"},
		{"doc.go", module + "/internal/lifecycle", ". may import only these of ours: internal/durations"},
		{"pool/p.go", module, ""},
		{"pool/p.go", module + "/internal/lifecycle", ""},
		{"pool/p.go", module + "/process", "pool may import only these of ours: ."},
		{"pool/p.go", module + "/pool/poolprom", "pool may import only"},
		{"pool/inside/p.go", module + "/pool", ""},
		{"process/p.go", module + "/internal/wire/frames", ""},
		{"process/p.go", module + "/executortest", "process may import only"},
		{"process/p_test.go", module + "/executortest", ""},
		{"process/p_test.go", module + "/pool", "process may import only"},
		{"process/p.go", "golang.org/x/sys/unix", "system calls stand in"},
		{"process/p_test.go", "golang.org/x/sys/unix", "system calls stand in"},
		{"internal/confine/c.go", "golang.org/x/sys/unix", ""},
		{"process/p.go", "testing", "test libraries do not belong"},
		{"process/p.go", "testing/synctest", "test libraries do not belong"},
		{"process/p_test.go", "testing/synctest", ""},
		{"executortest/e.go", "testing", ""},
		{"process/p.go", "github.com/google/go-cmp/cmp", "the row of process does not list it"},
		{"process/p_test.go", "github.com/google/go-cmp/cmp", ""},
		{"process/p.go", "C", "the row of process does not list it"},
		{"queue/q.go", "github.com/nats-io/nats.go/jetstream", ""},
		{"queue/q.go", "github.com/nats-io/nats-server/v2/server", "the row of queue does not list it"},
		{"cmd/bullpen/main.go", module + "/process", "cmd/bullpen may import only"},
		{"process/p.go", module + "/newcomer", "it is in no row"},
		{"newcomer/n.go", "fmt", "import: newcomer: this package is in no row"},
	} {
		text := "package x\n\nimport _ \"" + c.imports + "\"\n"
		got := checkImports(synthetic(t, map[string]string{c.file: text}))
		if c.want == "" {
			wantFaults(t, got)
		} else {
			wantFaults(t, got, c.want)
		}
	}
}

func TestRawCallsAreFound(t *testing.T) {
	t.Parallel()
	const text = "package x\n\nimport sys \"syscall\"\n\nfunc f() { sys.RawSyscall6(1, 2, 3, 4, 5, 6, 7); sys.Kill(1, sys.SIGKILL); sys.Mmap(0, 0, 0, 0, 0) }\n"
	wantFaults(t, checkRawCalls(synthetic(t, map[string]string{"process/p.go": text})), "RawSyscall6 makes a system call by number")
	wantFaults(t, checkRawCalls(synthetic(t, map[string]string{"internal/probe/p.go": text})))
	for name, want := range map[string]bool{
		"Syscall": true, "Syscall6": true, "RawSyscall": true, "SyscallN": true, "AllThreadsSyscall": true,
		"SyscallNoError": false, "Kill": false, "": false,
	} {
		if got := rawCall(name); got != want {
			t.Errorf("rawCall(%q) = %v, want %v", name, got, want)
		}
	}
}
