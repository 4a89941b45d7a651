package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What a file can cost: what is hardest on the library, a megabyte of it with
// BULLPEN_LONG=1.
func TestLargeFilesAreBounded(t *testing.T) {
	t.Parallel()
	most := mostBytes / 8
	if os.Getenv("BULLPEN_LONG") != "" {
		most = mostBytes
	}
	for name, part := range map[string]string{
		"lists": "[", "mappings": "{", "dashes": "- ", "questions": "? ", "anchors": "&a ", "keys": "a: ", "comments": "#\n", "quotes": "'", "double": `"\`, "tags": "!!map ",
		"literals": "a: |\n", "documents": "---\n", "unique": "x: 1\n", "commas": "[1,", "spaces": " ", "newlines": "\n", "flow keys": "{a: ", "aliases": "*a ", "directives": "%A\n",
		"comments between": "a:\n#\n", "deep lines": "-\n ", "numbers": "- 1\n", "folded": ">\n", "plain": "a\n", "carriage": "\r", "bom": "\ufeff",
	} {
		wantQuick(t, name, strings.Repeat(part, most/len(part)))
	}
	var distinct, pools strings.Builder
	pools.WriteString("pools:\n")
	for i := 0; distinct.Len() < most-20; i++ {
		fmt.Fprintf(&distinct, "worker%x: 1\n", i)
	}
	for i := 0; pools.Len() < most-20; i++ {
		fmt.Fprintf(&pools, "  %x: {command: x}\n", i)
	}
	wantQuick(t, "distinct keys", distinct.String())
	wantQuick(t, "pools", pools.String())
}

// wantQuick wants an answer far sooner than one that is not bounded, and not more
// of it than can be read.
func wantQuick(t *testing.T, name, text string) {
	t.Helper()
	const bound = time.Minute // on a busy machine, with the race detector
	start := time.Now()
	_, err := load(t, t.TempDir(), text)
	took := time.Since(start)
	t.Logf("%-20s %v", name, took.Round(time.Millisecond))
	if took > bound {
		t.Errorf("%s: %v", name, took)
	}
	var faults Faults
	if err != nil && (!errors.As(err, &faults) || len(faults) > mostFaults+1) {
		t.Errorf("%s: %d faults, %T", name, len(faults), err)
	}
}
