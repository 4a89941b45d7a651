package archtest

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
	"testing"
)

// checkSizes finds files and functions that are too long to be read at once.
func checkSizes(sources []*source) []fault {
	var faults []fault
	for _, s := range sources {
		if s.lines > mostFileLines {
			faults = append(faults, fault{"size", s.path, fmt.Sprintf("the file has %d lines, more than %d: cut it where its parts meet", s.lines, mostFileLines)})
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > mostFunctionLines {
				faults = append(faults, fault{"size", s.path + ": " + functionName(f), fmt.Sprintf("the function has %d lines, more than %d", n, mostFunctionLines)})
			}
		}
	}
	return faults
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := types.ExprString(f.Recv.List[0].Type)
	if strings.HasPrefix(receiver, "*") {
		receiver = "(" + receiver + ")"
	}
	return receiver + "." + f.Name.Name
}

// checkSleep finds waiting by time instead of for an event.
func checkSleep(sources []*source) []fault {
	var faults []fault
	for _, s := range sources {
		name := s.nameOf("time")
		if name == "" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && isPackage(sel.X, name) && sel.Sel.Name == "Sleep" {
				faults = append(faults, fault{"sleep", s.path, fmt.Sprintf("line %d sleeps: wait for an event, or select on a timer and what may end the wait", s.line(sel.Pos()))})
			}
			return true
		})
	}
	return faults
}

func TestSizes(t *testing.T) {
	t.Parallel()
	report(t, checkSizes(checkout(t)), "size")
}

func TestNobodySleeps(t *testing.T) {
	t.Parallel()
	report(t, checkSleep(checkout(t)), "sleep")
}

func TestLongFilesAndFunctionsAreFound(t *testing.T) {
	t.Parallel()
	long := "package x\n" + strings.Repeat("// line\n", mostFileLines-1) // one line is the clause
	wantFaults(t, checkSizes(synthetic(t, map[string]string{"a.go": long})))
	wantFaults(t, checkSizes(synthetic(t, map[string]string{"a.go": long + "// one more"})), "size: a.go: the file has 401 lines")

	function := func(lines int) string {
		return "package x\n\n// doc\nfunc (p *T[K]) f() {" + strings.Repeat("\n", lines-1) + "}\n"
	}
	wantFaults(t, checkSizes(synthetic(t, map[string]string{"a.go": function(mostFunctionLines)})))
	wantFaults(t, checkSizes(synthetic(t, map[string]string{"a.go": function(mostFunctionLines + 1)})),
		"size: a.go: (*T[K]).f: the function has 61 lines")
}

func TestSleepIsFound(t *testing.T) {
	t.Parallel()
	wantFaults(t, checkSleep(synthetic(t, map[string]string{
		"a_test.go": "package x\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n",
		"b.go":      "package x\n\nimport clock \"time\"\n\nvar f = clock.Sleep\n",
		"c.go":      "package x\n\nimport \"time\"\n\nvar t struct{ Sleep int }\nvar f = t.Sleep + int(time.Second)\n",
		"d.go":      "package x\n\nimport \"example.com/time\"\n\nvar f = time.Sleep\n",
	})), "sleep: a_test.go: line 5 sleeps", "sleep: b.go: line 5 sleeps")
}
