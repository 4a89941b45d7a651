package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/command"
	"github.com/bullpen-run/bullpen/process"
)

// checkCommand parses the placeholders of the command.
func (o *options) checkCommand(bad *faults) {
	if len(o.command) == 0 {
		bad.add("no command: name the program of the workers: bullpen map -- COMMAND [ARG...]")
		return
	}
	if o.literal && o.replace != "" {
		bad.add("--literal and --replace exclude each other: with --literal nothing is replaced")
	}
	if o.protocol != process.Exec {
		if o.replace != "" || o.dryRun {
			bad.add("--replace and --dry-run are for --protocol exec: other workers get their tasks on standard input")
		}
		if text := o.meantExec(); text != "" && !o.literal {
			bad.add("%s in the command is replaced by the line only with --protocol exec, not with %s: add -p exec; or --literal, to pass %s to the program unchanged", text, o.protocol, text)
		}
		return
	}
	if o.literal {
		return
	}
	columns := 0
	if o.colsep == nil {
		columns = max(o.perTask, 1) * max(len(o.argFiles)+len(o.lists), 1)
	}
	template, faults := command.Parse(o.command, command.Syntax{Replace: o.replace, Columns: columns})
	for _, f := range faults {
		bad.add("%w", f)
	}
	o.template = template
}

// meantExec returns a placeholder of the command that suggests that the protocol exec
// was meant; empty for none.
func (o *options) meantExec() string {
	for i, word := range o.command[1:] {
		text := command.First(word)
		if text == "{}" && !nameLike.MatchString(word) && !(o.command[i] == "-c" && isShell(o.command[0])) {
			continue // for example an empty object of jq
		}
		if text != "" {
			return text
		}
	}
	return ""
}

// nameLike matches arguments that are not code.
var nameLike = regexp.MustCompile(`^[\w/.,:=@%#+-]*(\{\}[\w/.,:=@%#+-]*)+$`)

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash"}, filepath.Base(program))
}

// arguments returns the arguments of a task's process; see process.Config.Arguments.
func (o *options) arguments(t bullpen.Task, slot int) (args []string, stdin bool) {
	it, ok := t.Observer.(*item)
	if !ok || o.template == nil {
		return o.command[1:], true
	}
	it.slot = slot
	return o.commandOf(it)[1:], !o.template.Input()
}

// commandOf returns the command that runs, or ran, an item.
func (o *options) commandOf(it *item) []string {
	if o.template == nil {
		return o.command
	}
	values := it.values
	switch {
	case it.name != nil:
		values = []string{string(it.name)}
	case values == nil:
		values = []string{string(it.payload)}
	}
	return o.template.Args(command.Task{Values: values, Number: it.index, Slot: it.slot})
}

// rehearsal returns the line of a dry run for an item.
func (o *options) rehearsal(it *item) []byte {
	it.slot = 1
	line := command.Quote(o.commandOf(it))
	if o.template == nil || !o.template.Input() {
		if o.files {
			return []byte(line + " < " + command.Quote([]string{string(it.name)}))
		}
		line = "printf %s " + command.Quote([]string{string(it.payload)}) + " | " + line
	}
	return []byte(line)
}

// variable matches a shell variable in a command.
var variable = regexp.MustCompile(`\$(?:\{([A-Za-z_]\w*)|([A-Za-z_]\w*))`)

// passedAlways are the variables that every worker gets, and those that the shell
// sets itself.
var passedAlways = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "PWD", "OLDPWD", "SHLVL", "_", "IFS", "PPID", "HOSTNAME", "UID", "RANDOM"}

// unpassed returns the variables that the command uses and that are set here but not
// passed to workers.
func (o *options) unpassed() (names []string) {
	if o.envAll {
		return nil
	}
	for i := 1; i < len(o.command); i++ {
		for _, m := range variable.FindAllStringSubmatch(o.command[i], -1) {
			name := m[1] + m[2]
			if _, set := os.LookupEnv(name); !set || slices.Contains(passedAlways, name) || slices.Contains(names, name) {
				continue
			}
			named := func(e string) bool { return e == name || strings.HasPrefix(e, name+"=") }
			own := regexp.MustCompile(`(^|[^$\w{])` + name + `\b`) // set by the command itself
			if !slices.ContainsFunc(o.env, named) && !own.MatchString(o.command[i]) {
				names = append(names, name)
			}
		}
	}
	return names
}

// adviseEnv warns about variables that the command uses but workers do not get.
func (o *options) adviseEnv() string {
	names := o.unpassed()
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("bullpen: the command uses $%s, which workers do not get: add --env %s, or --env-all for all variables\n",
		strings.Join(names, ", $"), strings.Join(names, " --env "))
}
