package command

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"{..}", "{...}", "{..}.png", "{+/}", "{+.}", "{##}", "{-1}", "{-2/}", "{0}", "{0.}", "{2}", "{2/}", "{10//}", "{1..}", "{1#}", "{%%}", "{/..}", "{///}",
		"{= uc =}", "{=1 s/a/b/ =}", "x{99999999999999999999}",
	} {
		if _, faults := Parse([]string{"echo", "{}", word}, Syntax{Columns: 1}); len(faults) != 1 ||
			!strings.Contains(faults[0].Error(), "-I {}") || !strings.Contains(faults[0].Error(), "--literal") {
			t.Errorf("%s: %v", word, faults)
		}
		if template, faults := Parse([]string{"echo", word}, Syntax{Replace: "{}"}); len(faults) > 0 || template.Input() {
			t.Errorf("%s is not literal where only {} is a placeholder: %v", word, faults)
		}
	}
	if _, faults := Parse([]string{"{}", "{..}", "{+/}"}, Syntax{Columns: 1}); len(faults) != 3 {
		t.Errorf("three faults in a command: %v", faults)
	}
}

// Braces of shells, awk, jq, JSON, Python and others are no placeholders.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"${VAR}", "${1}", "${#}", "${10}", "${1%.*}", "${x:-1}", "${#x}", "${x/a/b}", "{a,b}", "{1,2}", "{,.bak}", "a{1,3}b", "{1..3}", "{a..z}",
		"{print $1}", "{ print }", "{a:.b}", "{a: 1}", `{"a":1}`, `{"a":{"b":[1,2]}}`, "{'a': 1}", "{x for x in y}", "{{.ID}}", "{{range .}}", "{name}", "f{x:.2f}",
		"{", "}", "}{", "{\n}", "{ }", "{=", "{:}", "{-}", "{+}", "{*}", "{?}", "{;}", "{!r}", "[0-9]{2,}", "{é}", "\\{\\}",
	} {
		template, faults := Parse([]string{"sh", word}, Syntax{Columns: 1})
		if len(faults) > 0 || template.Input() {
			t.Errorf("%s: %v", word, faults)
			continue
		}
		if got := template.Args(Task{Values: []string{"X"}, Number: 7, Slot: 8}); !slices.Equal(got, []string{"sh", word}) {
			t.Errorf("%s became %q", word, got)
		}
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word   string
		syntax Syntax
		want   []string
	}{
		{"{}", Syntax{}, []string{"a b.c", "d"}},
		{"x{}y", Syntax{}, []string{"xa b.c dy"}}, // a shell would cut this at the spaces
		{"{.}/{2}", Syntax{}, []string{"a b d/d"}},
		{"{#} {%}", Syntax{}, []string{"7 3"}},
		{"{3}", Syntax{}, []string{""}},
		{"@@", Syntax{Replace: "@@"}, []string{"a b.c", "d"}},
		{"@{}", Syntax{Replace: "@"}, []string{"a b.c d{}"}},
		{"cost: ${}", Syntax{}, []string{"cost: $a b.c d"}},
	} {
		template, faults := Parse([]string{"echo", c.word}, c.syntax)
		if len(faults) > 0 {
			t.Errorf("%s: %v", c.word, faults)
			continue
		}
		if got := template.Args(Task{Values: []string{"a b.c", "d"}, Number: 7, Slot: 3})[1:]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.word, got, c.want)
		}
	}
	if template, _ := Parse([]string{"echo", "{#}", "{%}"}, Syntax{}); template.Input() {
		t.Error("numbers are no place for the input")
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"{}": "{}", "a/{/.}.x": "{/.}", "[0-9]{3}": "", "{a:1}": "", "": "", "{..} {}": "{}", "${1}": "",
	} {
		if got := First(word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestSeparator(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a*", "a(", "x?|"} {
		if _, err := ParseSeparator(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	for _, one := range []string{"|", ".", "*", "\t", "é"} {
		s, err := ParseSeparator(one)
		if err != nil {
			t.Errorf("%q: %v", one, err)
			continue
		}
		if got := s.Cut([]string{"x" + one + "y", "z"}); !slices.Equal(got, []string{"x", "y", "z"}) {
			t.Errorf("%q: %q", one, got)
		}
	}
}

// A shell reads what Quote has written as the same words.
func TestQuote(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell here")
	}
	words := []string{"plain", "", "a b", "it's", `"$x" \ ` + "`y`", "*?[a]", "a\nb", "~", "#", "{a,b}", "é", "-n", "a=b", "&&", "!x"}
	out, err := exec.Command(shell, "-c", "printf '%s\\0' "+Quote(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("%q, want %q", got, words)
	}
}

func FuzzParse(f *testing.F) {
	for _, word := range []string{"{}", "{.}x{2//}", "${1}", "{= =}", "{", "{-1}", "a{}{#}b", "{99999999999999999999}"} {
		f.Add(word, "value.x")
	}
	f.Fuzz(func(t *testing.T, word, value string) {
		template, faults := Parse([]string{"p", word}, Syntax{})
		if len(faults) > 0 {
			return
		}
		args := template.Args(Task{Values: []string{value}, Number: 1, Slot: 1})
		if len(args) != 2 {
			t.Fatalf("%q became %q", word, args)
		}
		if !strings.Contains(word, "{") && args[1] != word {
			t.Fatalf("%q became %q", word, args[1])
		}
	})
}
