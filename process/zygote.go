package process

import (
	_ "embed" // the fork server's program
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/bullpen-run/bullpen/internal/confine"
)

// The program of the fork server of Python workers: one program in two files, the
// workers' half first.
var (
	//go:embed zygote_worker.py
	zygoteWorker string
	//go:embed zygote.py
	zygoteServer string
)

// zygoteLoader runs the program from descriptor 3, with pread so that its position does
// not matter. The text shows up in process lists, so it is short.
const zygoteLoader = "import os;exec(compile(os.pread(3,1<<20,0),'<bullpen zygote>','exec')," +
	"{'__name__':'bullpen_zygote','__file__':'<bullpen zygote>'})"

// zygoteSDK is preloaded if it is installed, since most workers use it.
const zygoteSDK = "bullpen?"

// zygoteProgram returns the fork server's program in memory, which becomes its
// descriptor 3. The caller closes it once the server is started.
func zygoteProgram() (*confine.Memory, error) {
	source := zygoteWorker + "\n\n" + zygoteServer
	m, err := confine.NewMemory("bullpen-zygote", len(source))
	if err != nil {
		return nil, err
	}
	copy(m.Bytes(), source)
	return m, nil
}

// zygoteCommand splits command, which runs a Python program with the interpreter at
// path. args are the arguments of a fork server that imports the modules in preload,
// Args[0] included. worker are the arguments of the workers that it forks: "script.py",
// "-m" or "-c" and what follows.
func zygoteCommand(path string, command, preload []string) (args, worker []string, err error) {
	if !strings.HasPrefix(strings.ToLower(filepath.Base(path)), "python") {
		return nil, nil, fmt.Errorf("Preload needs Python: %q is not a Python interpreter; begin Command with python3", path)
	}
	for _, name := range preload {
		if !isModule(name) {
			return nil, nil, fmt.Errorf("Preload has %q, which is not the name of a Python module", name)
		}
	}
	options, worker, err := splitPython(command[1:])
	if err != nil {
		return nil, nil, fmt.Errorf("Preload needs a Command that names a Python program: %w", err)
	}
	// Use path as Args[0]: an interpreter finds its modules by that name.
	args = append(append([]string{path}, options...), "-c", zygoteLoader, worker[0], zygoteSDK)
	return append(args, preload...), worker, nil
}

// isModule reports whether name is a dotted module name.
func isModule(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		for i, r := range part {
			if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
				return false
			}
		}
		if part == "" {
			return false
		}
	}
	return true
}

// splitPython splits the arguments of a Python interpreter as Python does: options,
// several of which may be combined in one argument, then what to run.
func splitPython(args []string) (options, program []string, err error) {
	for len(args) > 0 {
		a := args[0]
		switch {
		case a == "-":
			return nil, nil, errStdin
		case a == "--":
			if len(args) == 1 {
				return nil, nil, errStdin
			}
			return options, args[1:], nil
		case strings.HasPrefix(a, "--"):
			if a != "--check-hash-based-pycs" {
				return nil, nil, fmt.Errorf("it cannot be combined with %s", a)
			}
			if len(args) == 1 {
				return nil, nil, missingAfter(a)
			}
			options = append(options, args[:2]...)
			args = args[2:]
		case !strings.HasPrefix(a, "-"):
			if a == "" {
				return nil, nil, errors.New("the name of the script is empty")
			}
			return options, args, nil
		default:
			c, err := splitCluster(a[1:], args[1:])
			if err != nil {
				return nil, nil, err
			}
			options = append(options, c.options...)
			if c.program != nil {
				return options, c.program, nil
			}
			args = c.rest
		}
	}
	return nil, nil, errStdin
}

var errStdin = errors.New("it has neither a script nor -m or -c, so Python would read the program from standard input")

func missingAfter(option string) error { return fmt.Errorf("nothing follows %s", option) }

// cluster is one parsed argument of combined options.
type cluster struct {
	options []string
	program []string // what to run, if the cluster contains -c or -m
	rest    []string // the arguments that follow
}

// splitCluster parses "-" + letters, which next follows.
func splitCluster(letters string, next []string) (c cluster, err error) {
	for i, letter := range letters {
		const flags = "bBdEIOPqRsStuv" // options without an argument
		switch {
		case letter == 'c' || letter == 'm':
			if i > 0 {
				c.options = []string{"-" + letters[:i]}
			}
			value, rest, err := argument(letter, letters[i+1:], next)
			if err != nil {
				return c, err
			}
			c.program = append([]string{"-" + string(letter), value}, rest...)
			return c, nil
		case letter == 'W' || letter == 'X':
			value, rest, err := argument(letter, letters[i+1:], next)
			if err != nil {
				return c, err
			}
			c.options = []string{"-" + letters[:i+1], value}
			c.rest = rest
			return c, nil
		case strings.ContainsRune("hVix?", letter):
			return c, fmt.Errorf("it cannot be combined with -%c", letter)
		case !strings.ContainsRune(flags, letter):
			return c, fmt.Errorf("unknown Python option -%c", letter)
		}
	}
	c.options, c.rest = []string{"-" + letters}, next
	return c, nil
}

// argument returns the argument of an option: the rest of its own word, or the next
// one.
func argument(letter rune, own string, next []string) (value string, rest []string, err error) {
	if own != "" {
		return own, next, nil
	}
	if len(next) == 0 {
		return "", nil, missingAfter("-" + string(letter))
	}
	return next[0], next[1:], nil
}
