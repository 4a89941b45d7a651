package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad reads anything, from all sources. It must not panic, and every fault
// says where it is, in one line.
func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile(docs)
	if err != nil {
		f.Fatal(err)
	}
	for _, found := range example.FindAllStringSubmatch(string(text), -1) {
		f.Add(found[2], "BULLPEN_NODE=a", "http.listen", "127.0.0.1:1")
	}
	var all strings.Builder
	for _, k := range poolTable.keys {
		if !strings.HasPrefix(k.path, "sandbox.") && !strings.Contains(k.path, ".") {
			all.WriteString("    " + k.path + ": " + poolSamples[k.path] + "\n")
		}
	}
	f.Add("pools:\n  a:\n"+all.String(), "STATE_DIRECTORY=/x:/y", "queue.url", "nats://u:p@a,b")
	f.Add("x-a: &a [*a, {<<: *a}]\nhttp: {<<: [*a, {rate: .inf}]}\n", "BULLPEN_HTTP_X=1", "grace", "1e300")
	f.Add("? [a]\n: b\n!!map {a: !x b}\n--- |\n a\n", "BULLPEN_POOLS_X=", "queue.cluster.listen", ":0")
	f.Add("a: b: c\n\t- x", "=", "", "\x00")
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text, variable, key, given string) {
		s, err := Load(Source{Path: filepath.Join(folder, "f"), Text: []byte(text), Env: []string{variable}, Flags: map[string]string{key: given}})
		if (s == nil) == (err == nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if err == nil {
			if d := s.Diff(s); len(d) > 0 {
				t.Errorf("it differs from itself in %q", d)
			}
			return
		}
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		for _, fault := range faults {
			if fault.Line == 0 && fault.File != "environment" && fault.File != "flags" || fault.Text == "" || strings.ContainsAny(fault.Error(), "\n\x00\x1b") {
				t.Errorf("%+v", fault)
			}
		}
	})
}

func FuzzSplitCommand(f *testing.F) {
	f.Add(`a 'b c' "d\" e" C:\x \ y`)
	f.Fuzz(func(t *testing.T, text string) {
		words, err := splitCommand(text)
		if err == nil && (len(words) == 0 || words[0] == "" || strings.Contains(strings.Join(words, ""), "\x00")) {
			t.Errorf("%q becomes %q", text, words)
		}
	})
}
