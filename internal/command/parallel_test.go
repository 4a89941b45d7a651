package command

import (
	"slices"
	"testing"
)

// parallelNames is what GNU parallel 20221122 makes of names, for
//
//	parallel -k -q printf '%s\0' {.} {/} {//} {/.} ::: NAME
var parallelNames = []struct{ value, stem, base, folder, baseStem string }{
	{"a/b.c.d", "a/b.c", "b.c.d", "a", "b.c"},
	{"plain", "plain", "plain", ".", "plain"},
	{".hidden", "", ".hidden", ".", ""},
	{"a/.hidden", "a/", ".hidden", "a", ""},
	{"a.b/c", "a.b/c", "c", "a.b", "c"},
	{"/x", "/x", "x", "/", "x"},
	{"/a/b/", "/a/b/", "", "/a", ""},
	{"a/", "a/", "", ".", ""},
	{"dir.d/file", "dir.d/file", "file", "dir.d", "file"},
	{"sp ace/f n.txt", "sp ace/f n", "f n.txt", "sp ace", "f n"},
	{".", "", ".", ".", ""},
	{"..", ".", "..", ".", "."},
	{"./x.y", "./x", "x.y", ".", "x"},
	{"a.", "a", "a.", ".", "a"},
	{"a/b.", "a/b", "b.", "a", "b"},
	{"/", "/", "", "/", ""},
	{"", "", "", ".", ""},
	{"a//b.c", "a//b", "b.c", "a", "b"},
	{"../x.tar.gz", "../x.tar", "x.tar.gz", "..", "x.tar"},
	{"a.b/", "a.b/", "", ".", ""},
	{"x..y", "x.", "x..y", ".", "x."},
	{"...", "..", "...", ".", ".."},
	{".a.b", ".a", ".a.b", ".", ".a"},
	{"a/..", "a/.", "..", "a", "."},
	{"a/../b.c", "a/../b", "b.c", "a/..", "b"},
	{"//a", "//a", "a", "/", "a"},
	{"/a//b//", "/a//b//", "", "/a", ""},
	{"//", "//", "", "/", ""},
	{"a//", "a//", "", ".", ""},
	{"a//b//", "a//b//", "", "a", ""},
	{"/.x", "/", ".x", "/", ""},
	{"a/b/c.d/e.f", "a/b/c.d/e", "e.f", "a/b/c.d", "e"},
	{"-n.x", "-n", "-n.x", ".", "-n"},
	{"ä/ö.ü", "ä/ö", "ö.ü", "ä", "ö"},
	{"a\tb.c", "a\tb", "a\tb.c", ".", "a\tb"},
	{"'q'.\"r\"", "'q'", "'q'.\"r\"", ".", "'q'"},
	{"$HOME/`x`.sh", "$HOME/`x`", "`x`.sh", "$HOME", "`x`"},
	{"a*b?.[c]", "a*b?", "a*b?.[c]", ".", "a*b?"},
	{"*.go", "*", "*.go", ".", "*"},
	{"x=1.2", "x=1", "x=1.2", ".", "x=1"},
	{"~/f.g", "~/f", "f.g", "~", "f"},
	{"a\\b.c", "a\\b", "a\\b.c", ".", "a\\b"},
	{"{}.x", "{}", "{}.x", ".", "{}"},
	{"#.y", "#", "#.y", ".", "#"},
	{";rm -rf.z", ";rm -rf", ";rm -rf.z", ".", ";rm -rf"},
}

// parallelCommands is what GNU parallel 20221122 makes of commands, for
//
//	parallel -k -q -j1 [-C SEPARATOR] printf '%s\0' WORD... ::: VALUE [::: VALUE]
var parallelCommands = []struct {
	words, values []string
	separator     string
	want          []string
}{
	{[]string{"{}", "{.}", "{#}"}, []string{"a.b"}, "", []string{"a.b", "a", "1"}},
	{[]string{"x{}y", "{1}", "{1.}", "{1/}", "{1//}", "{1/.}"}, []string{"d/a.b"}, "", []string{"xd/a.by", "d/a.b", "d/a", "a.b", "d", "a"}},
	{[]string{"{1}-{2}", "{2}{1}", "{01}"}, []string{"a", "1"}, "", []string{"a-1", "1a", "a"}},
	{[]string{"{2/.}", "{1//}"}, []string{"d/a", "e/f.g"}, "", []string{"f", "d"}},
	{[]string{"{}"}, []string{"a", "1"}, "", []string{"a", "1"}},
	{[]string{"{.}", "{/}"}, []string{"d/a.x", "e/1.y"}, "", []string{"d/a", "e/1", "a.x", "1.y"}},
	{[]string{"a", "b", "{}", "{}"}, []string{"sp ace"}, "", []string{"a", "b", "sp ace", "sp ace"}},
	{[]string{"{{}}", "{a}", "{ }", "{1,2}", "{,}", "{\"k\":1}", "{print $1}"}, []string{"v"}, "", []string{"{v}", "{a}", "{ }", "{1,2}", "{,}", "{\"k\":1}", "{print $1}"}},
	{[]string{"{}{.}{/}"}, []string{"d/v.w"}, "", []string{"d/v.wd/vv.w"}},
	{[]string{"{#}:{%}:{}"}, []string{"v"}, "", []string{"1:1:v"}},
	{[]string{"{1}{", "}{1}", "{}}", "{"}, []string{"v"}, "", []string{"v{", "}v", "v}", "{"}},
	{[]string{"{1} {1}", "'{}'", "\"{}\""}, []string{"it's $x"}, "", []string{"it's $x it's $x", "'it's $x'", "\"it's $x\""}},
	{[]string{"{1}", "{2}", "{3}", "{2.}"}, []string{"a,b.c,d"}, ",", []string{"a", "b.c", "d", "b"}},
	{[]string{"{1}", "{2}", "{4}"}, []string{"a,b"}, ",", []string{"a", "b", ""}},
	{[]string{"{}"}, []string{"a,b.c,d"}, ",", []string{"a", "b.c", "d"}},
	{[]string{"{.}", "{2/}"}, []string{"a.x,d/b.c"}, ",", []string{"a", "d/b", "b.c"}},
	{[]string{"{1}", "{2}", "{3}"}, []string{"a  b c"}, " +", []string{"a", "b", "c"}},
	{[]string{"{1}", "{2}", "{3}"}, []string{"a\tb c\t d "}, "\\t", []string{"a", "b c", "d"}},
	{[]string{"{1}", "{2}"}, []string{"a b"}, " ", []string{"a", "b"}},
	{[]string{"{1}", "{2}", "{3}"}, []string{"aXbxc"}, "[xX]", []string{"a", "b", "c"}},
	{[]string{"{1}", "{2}", "{3}", "{4}"}, []string{"a,b", "1,2"}, ",", []string{"a", "b", "1", "2"}},
	{[]string{"{1}-{2}", "{2}{1}"}, []string{"1", "2"}, "", []string{"1-2", "21"}},
	{[]string{"{.}", "{1/}"}, []string{"d/1.x", "d/2.x"}, "", []string{"d/1", "d/2", "1.x"}},
}

func TestNamesAsInParallel(t *testing.T) {
	t.Parallel()
	for _, v := range parallelNames {
		got := []string{stem.of(v.value), base.of(v.value), folder.of(v.value), baseStem.of(v.value)}
		if want := []string{v.stem, v.base, v.folder, v.baseStem}; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", v.value, got, want)
		}
	}
}

func TestCommandsAsInParallel(t *testing.T) {
	t.Parallel()
	for _, v := range parallelCommands {
		values, columns := v.values, len(v.values)
		if v.separator != "" {
			s, err := ParseSeparator(v.separator)
			if err != nil {
				t.Fatal(err)
			}
			values, columns = s.Cut(values), 0
		}
		template, faults := Parse(append([]string{"printf"}, v.words...), Syntax{Columns: columns})
		if len(faults) > 0 {
			t.Errorf("%q: %v", v.words, faults)
			continue
		}
		if got := template.Args(Task{Values: values, Number: 1, Slot: 1})[1:]; !slices.Equal(got, v.want) {
			t.Errorf("%q with %q: %q, want %q", v.words, values, got, v.want)
		}
	}
}
