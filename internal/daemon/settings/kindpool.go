package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// command is a program and its arguments: a list, or one text that is split at
// spaces.
var command = kind[[]string]{
	name: "list of text, or text", use: "use a list such as [python3, worker.py], or one text", parse: func(v value) ([]string, error) {
		if v.shape == isScalar {
			return splitCommand(v.text)
		}
		words, ok := v.scalars()
		if !ok || len(words) == 0 || words[0] == "" {
			return nil, errUse
		}
		if slices.ContainsFunc(words, func(s string) bool { return strings.ContainsRune(s, 0) }) {
			return nil, errors.New("it has a NUL byte, which an argument cannot hold: remove it")
		}
		return words, nil
	},
}

// shellWords are words that only make sense in a shell.
var shellWords = []string{"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>&1", "2>"}

// splitCommand splits a command at spaces. Quotes keep text together, and so does a
// backslash before a space, a quote or a backslash. Any other backslash stands for
// itself, as in Windows paths.
func splitCommand(s string) ([]string, error) {
	const space = " \t\r\n"
	var words []string
	var now strings.Builder
	var quoted byte // the open quote, if any
	begun, plain := false, true
	end := func() error {
		if begun && plain && slices.Contains(shellWords, now.String()) {
			return fmt.Errorf("%s has no meaning without a shell: use a list such as [sh, -c, \"...\"]", now.String())
		}
		if begun {
			words = append(words, now.String())
		}
		now.Reset()
		begun, plain = false, true
		return nil
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == 0:
			return nil, errors.New("it has a NUL byte, which an argument cannot hold: remove it")
		case c == '\\' && quoted != '\'' && i+1 < len(s) && strings.IndexByte(space+`"'\`, s[i+1]) >= 0:
			i++
			now.WriteByte(s[i])
			begun, plain = true, false
		case quoted != 0 && c == quoted:
			quoted = 0
		case quoted == 0 && (c == '"' || c == '\''):
			quoted, begun, plain = c, true, false
		case quoted == 0 && strings.IndexByte(space, c) >= 0:
			if err := end(); err != nil {
				return nil, err
			}
		default:
			now.WriteByte(c)
			begun = true
		}
	}
	if quoted != 0 {
		return nil, fmt.Errorf("a quote %c is not closed: close it, or use a list such as [python3, worker.py]", quoted)
	}
	if err := end(); err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errUse
	}
	return words, nil
}

// environment is the environment of workers. A name without a value passes on the
// daemon's own value.
var environment = kind[[]string]{
	name: "mapping", use: "use names with values, such as {LANG: C, TOKEN: null}; null passes on what the daemon has", parse: func(v value) ([]string, error) {
		if v.shape != isMapping {
			return nil, errUse
		}
		all := make([]string, 0, len(v.pairs))
		for _, p := range v.pairs {
			if p.name == "" || strings.ContainsAny(p.name, "=\x00") || strings.ContainsRune(p.value.text, 0) {
				return nil, fmt.Errorf("it has the name %s: a name cannot contain =, and names and values cannot contain NUL bytes", quote(p.name))
			}
			switch p.value.shape {
			case isNull:
				all = append(all, p.name)
			case isScalar:
				all = append(all, p.name+"="+p.value.text)
			case isList, isMapping:
				return nil, fmt.Errorf("%s has %s: use a text, or null to pass on what the daemon has", quote(p.name), shapeWords[p.value.shape])
			}
		}
		slices.Sort(all)
		return all, nil
	},
}

// outcomes are those after which a job is retried.
var outcomes = kind[[]bullpen.Outcome]{
	name: "list of outcomes", use: "use a list of outcomes, such as [failed, timeout]", parse: func(v value) ([]bullpen.Outcome, error) {
		words, ok := v.scalars()
		if !ok {
			return nil, errUse
		}
		all := make([]bullpen.Outcome, 0, len(words))
		for _, w := range words {
			o, err := bullpen.ParseOutcome(w)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s is not an outcome: use %s", quote(w), strings.Join(retried(), ", "))
			case !slices.Contains(retried(), w):
				return nil, fmt.Errorf("%s cannot be retried: leave it out (lost is retried for jobs that are idempotent)", w)
			case slices.Contains(all, o):
				return nil, fmt.Errorf("%s is listed twice: list it once", w)
			}
			all = append(all, o)
		}
		return all, nil
	},
}

// retried returns the outcomes that a policy may name.
func retried() []string {
	var all []string
	for _, o := range bullpen.Outcomes() {
		if o != bullpen.OK && o != bullpen.Canceled && o != bullpen.Lost {
			all = append(all, o.String())
		}
	}
	return all
}

const (
	lowestNice  = -20
	highestNice = 19
)

var nice = kind[int]{
	name: "number or host", use: "use a nice value from -20 to 19 other than 0, or host for that of the daemon", parse: func(v value) (int, error) {
		if v.shape == isScalar && v.text == "host" {
			return process.HostNice, nil
		}
		n, err := count(lowestNice, highestNice).parse(v)
		if err == nil && n == 0 { // the default of process.Config
			return 0, errUse
		}
		return n, err
	},
}

var cpus = kind[[]int]{
	name: "processors", use: "use processor numbers, such as 0-3,7 or [0, 1], or a mask such as 0x8f", parse: func(v value) ([]int, error) {
		texts, ok := v.scalars()
		if !ok {
			return nil, errUse
		}
		all, err := process.ParseCPUs(strings.Join(texts, ","))
		if err != nil {
			return nil, errUse
		}
		return all, nil
	},
}

var profile = parsed([]string{"default", "strict", "none"}, process.ParseProfile)
