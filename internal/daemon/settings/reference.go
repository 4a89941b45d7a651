package settings

import (
	"fmt"
	"strings"
)

const preface = `The configuration of the daemon: flags go before the environment, that before the
file (bullpen.yaml), and that before the defaults. Pools and schedules are set
in the file only.
Durations are written as 500ms, 10s or 2h (a plain number means seconds), sizes as
500K, 64MiB or 1.5G. Relative paths in the file start at its folder.
`

const lineWidth = 88

// Reference returns a description of all keys, for a terminal.
func Reference() string {
	var b strings.Builder
	b.WriteString(preface)
	for i := range daemonTable.keys {
		describe(&b, &daemonTable.keys[i], "")
	}
	for i := range poolTable.keys {
		describe(&b, &poolTable.keys[i], "pools.NAME.")
	}
	for i := range scheduleTable.keys {
		describe(&b, &scheduleTable.keys[i], "schedules.NAME.")
	}
	return b.String()
}

func describe[D any](b *strings.Builder, k *key[D], prefix string) {
	fmt.Fprintf(b, "\n%s%s\n", prefix, k.path)
	says := k.does + "."
	if k.isNote() {
		says += " Default: " + k.byDefault[1:len(k.byDefault)-1] + "."
	} else {
		says += " Default: " + k.byDefault + "."
	}
	wrap(b, "    ", strings.ToUpper(says[:1])+says[1:])
	if prefix == "" {
		fmt.Fprintf(b, "    (%s; %s)\n", k.kind, variable(k.path))
	} else {
		fmt.Fprintf(b, "    (%s)\n", k.kind)
	}
}

// wrap writes text in wrapped lines that begin with indent.
func wrap(b *strings.Builder, indent, text string) {
	line := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == 0:
			b.WriteString(indent)
			line = len(indent)
		case line+1+len(word) > lineWidth:
			b.WriteString("\n" + indent)
			line = len(indent)
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	b.WriteByte('\n')
}
