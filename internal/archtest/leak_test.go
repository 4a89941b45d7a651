package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// checkLeaks wants a TestMain that looks for what the tests of a package have left
// behind, in each package that has tests.
func checkLeaks(sources []*source) []fault {
	tested, looks := map[string]bool{}, map[string]bool{}
	for _, s := range sources {
		if s.nested || !s.isTest() {
			continue
		}
		main := false
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			tested[s.folder()] = tested[s.folder()] || strings.HasPrefix(f.Name.Name, "Test")
			main = main || f.Name.Name == "TestMain"
		}
		looks[s.folder()] = looks[s.folder()] || main && s.looksForLeaks()
	}
	var faults []fault
	for folder, has := range tested {
		if has && !looks[folder] {
			faults = append(faults, fault{"leak", folder, "nothing looks for what its tests leave behind: write func TestMain(m *testing.M) { leak.Main(m) }"})
		}
	}
	return faults
}

// looksForLeaks reports whether s calls what finds leaks at the end of a package.
func (s *source) looksForLeaks() bool {
	name := s.nameOf(module + "/internal/leak")
	if name == "" {
		return false
	}
	found := false
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && isPackage(sel.X, name) && (sel.Sel.Name == "Main" || sel.Sel.Name == "Snapshot") {
			found = true
		}
		return !found
	})
	return found
}

func TestLeaksAreLookedFor(t *testing.T) {
	t.Parallel()
	report(t, checkLeaks(checkout(t)), "leak")
}

func TestMissingLeakChecksAreFound(t *testing.T) {
	t.Parallel()
	const imports = "\n\nimport \"" + module + "/internal/leak\"\n\n"
	wantFaults(t, checkLeaks(synthetic(t, map[string]string{
		"good/a_test.go":   "package good" + imports + "func TestMain(m *testing.M) { leak.Main(m) }\n",
		"good/b_test.go":   "package good\n\nfunc TestB(t *testing.T) {}\n",
		"own/a_test.go":    "package own" + imports + "func TestMain(m *testing.M) { before := leak.Snapshot() }\n",
		"bare/a_test.go":   "package bare\n\nfunc TestA(t *testing.T) {}\n",
		"blind/a_test.go":  "package blind\n\nfunc TestMain(m *testing.M) { m.Run() }\n\nfunc TestA(t *testing.T) {}\n",
		"parts/a_test.go":  "package parts\n\nfunc part() {}\n",
		"other/other.go":   "package other\n\nfunc TestOfSomething() {}\n",
		"single/a_test.go": "package single" + imports + "func TestA(t *testing.T) { leak.Check(t) }\n",
	})), "leak: bare: nothing looks", "leak: blind: nothing looks", "leak: single: nothing looks")
}
