package settings

import (
	stdflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/process"
)

var update = stdflag.Bool("update", false, "write docs/configuration.md from the tables")

const docs = "../../../docs/configuration.md"

// markdown writes a table of keys.
func markdown[D any](b *strings.Builder, t *table[D], variables bool) {
	b.WriteString("| key | value | default | what it does |\n|---|---|---|---|\n")
	for _, k := range t.keys {
		byDefault := "`" + k.byDefault + "`"
		if k.isNote() {
			byDefault = k.byDefault[1 : len(k.byDefault)-1]
		}
		does := k.does
		if variables && !k.live {
			does += " (restart)"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.path, k.kind, byDefault, strings.ReplaceAll(does, "|", `\|`))
	}
}

func TestDocsHaveEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys -->\n", "<!-- end of keys -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, whole := strings.Cut(rest, end)
	if !found || !whole {
		t.Fatalf("%s has no place for the keys", docs)
	}
	var b strings.Builder
	b.WriteString(before + begin + "\n### The daemon\n\n")
	markdown(&b, daemonTable, true)
	b.WriteString("\n### A pool\n\nBelow `pools` and its name. All of them may be changed by a reload.\n\n")
	markdown(&b, poolTable, false)
	b.WriteString("\n### A schedule\n\nBelow `schedules` and its name. All of them may be changed by a reload.\n\n")
	markdown(&b, scheduleTable, false)
	b.WriteString("\n" + end + after)
	if *update {
		if err := os.WriteFile(docs, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != string(text) {
		t.Errorf("%s is not what the tables say; run go test ./internal/daemon/settings -run Docs -update", docs)
	}
}

var example = regexp.MustCompile("(?s)<!-- example: (\\w+) -->\n```yaml\n(.*?)```")

// The programs and files that the examples name are there, and nothing else.
func TestDocsExamplesLoad(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs of the examples are scripts of a shell")
	}
	folder := t.TempDir()
	const script = "#!/bin/sh\nexit 1\n"
	cert, key := newPair(t)
	writeFiles(t, folder, map[string]string{
		"bin/python3": script, "greet": script, "tls/cert.pem": cert, "tls/key.pem": key, "tokens": "", "keys": "AKIDEXAMPLE secret-of-the-example\n", "images/a": "", "models/a": "", "reports/report": script,
	})
	t.Setenv("PATH", filepath.Join(folder, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	lambda, err := os.ReadFile("../../../docs/lambda.md")
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(map[string]*Settings)
	for _, found := range example.FindAllStringSubmatch(string(text)+string(lambda), -1) {
		written := found[2]
		if runtime.GOOS != "linux" {
			written = strings.ReplaceAll(written, "    preload:", "    # preload:")
		}
		s, err := load(t, folder, written)
		if err != nil {
			t.Errorf("%s: %v", found[1], err)
			continue
		}
		loaded[found[1]] = s
	}
	if len(loaded) != 6 {
		t.Fatalf("%d examples load", len(loaded))
	}
	s := loaded["complete"]
	if p := s.Pools["thumbs"]; p.Process.Sandbox.Profile != process.ProfileStrict || p.Retry.Attempts != 8 || p.Process.Recycle.Tasks != 10000 || !p.Ephemeral {
		t.Errorf("thumbs is %+v", p)
	}
	if b := loaded["batches"].Pools["orders"].Process.Batch; b != (process.Batch{Max: 10, Wait: 20 * time.Millisecond, Shape: process.ShapeSQS}) {
		t.Errorf("the batch of orders is %+v", b)
	}
	if p := s.Pools["greet"]; len(p.Process.Command) != 3 || p.Process.Protocol != process.Lines {
		t.Errorf("greet is %+v", p)
	}
	if len(s.Pools) != 4 || s.Budget == nil || s.Queue.MaxPayload != 16<<20 || s.Store.Dir != "/var/lib/bullpen/queue" {
		t.Errorf("%v", s)
	}
}

// The faults that the page shows are what such a file gives.
func TestDocsShowFaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "bullpen.yaml:") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	folder := t.TempDir()
	_, err = load(t, folder, "# line 1\n# line 2\n# line 3\npools:\n  greet:\n    command: go\n    workrs: 3\n    limits:\n      timeout: soon\n")
	if err == nil {
		t.Fatal("no fault is reported")
	}
	if got := strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), ""); got != strings.Join(want, "\n") {
		t.Errorf("such a file gives\n%s\nand the page shows\n%s", got, strings.Join(want, "\n"))
	}
}
