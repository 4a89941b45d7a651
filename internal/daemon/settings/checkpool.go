package settings

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/process"
)

func (l *loader) checkPool(name string, p *Pool) {
	at := "pools." + name
	if err := p.Groups.Check(); err != nil {
		for _, one := range leaves(err) {
			l.fault(at+".groups", "%v", one)
		}
	}
	if !l.given(at + ".command") {
		if of := l.workersOnly(at); len(of) > 0 {
			l.fault(at, "it sets %s but no command: set command, or remove the other keys for a pool that is only a queue", strings.Join(of, ", "))
		}
		return
	}
	before := len(l.journal.faults)
	c := &p.Process
	if c.Max < c.Min {
		l.fault(at+".workers.max", "it is %d, below workers.min, which is %d: raise it, or lower workers.min", c.Max, c.Min)
	}
	if c.NUL && c.Protocol != process.Lines {
		l.fault(at+".null", "it is for the protocol lines, but the protocol is %v: leave it out", c.Protocol)
	}
	shares := c.Protocol == process.Frames || c.Protocol == process.HTTP || c.Protocol == process.Lambda
	direct := c.Protocol == process.HTTP || c.Protocol == process.Lambda
	for key, applies := range map[string]bool{
		"workers.concurrency": direct, "http.path": c.Protocol == process.HTTP, "http.ready": c.Protocol == process.HTTP,
		"lambda.handler": c.Protocol == process.Lambda, "batch.max": shares, "batch.wait": shares, "batch.shape": shares,
	} {
		if !applies && l.given(at+"."+key) {
			l.fault(at+"."+key, "it does not apply to the protocol %v: leave it out, or set protocol", c.Protocol)
		}
	}
	if c.Sandbox.Profile != process.ProfileStrict {
		for _, k := range []string{"allow", "network", "temp", "best_effort"} {
			if l.given(at + ".sandbox." + k) {
				l.fault(at+".sandbox."+k, "it needs the profile strict: set sandbox.profile to strict, or leave it out, as other profiles do not restrict files or network")
			}
		}
	}
	l.checkProgram(at, c)
	if len(l.journal.faults) > before || len(c.Command) == 0 {
		return
	}
	// What the checks above miss, the library reports in its own words.
	if err := c.Check(); err != nil {
		for _, one := range leaves(err) {
			l.fault(at, "%v", one)
		}
	}
}

// workersOnly lists the set keys of a pool that apply only to workers.
func (l *loader) workersOnly(at string) []string {
	var all []string
	for _, k := range poolTable.keys {
		name, _, _ := strings.Cut(k.path, ".")
		if name != "task" && name != "retry" && name != "groups" && k.path != "lambda.event_age" && l.given(at+"."+k.path) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// checkProgram checks the workers' program, their working folder, and the files that
// they may use.
func (l *loader) checkProgram(at string, c *process.Config) {
	dir := c.Dir
	if dir != "" {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			l.fault(at+".dir", "%s cannot be used: %v", quote(dir), reason(err))
		case !info.IsDir():
			l.fault(at+".dir", "%s is a file, not a folder", quote(dir))
		}
		if err != nil || !info.IsDir() {
			return // the program may be in that folder
		}
	}
	if len(c.Command) == 0 {
		return // the value is not a valid command, which was already reported
	}
	only := process.Config{Command: c.Command, Dir: dir, Preload: c.Preload}
	if c.Sandbox.Profile == process.ProfileStrict {
		only.Sandbox = process.Sandbox{Profile: c.Sandbox.Profile, Allow: c.Sandbox.Allow}
	}
	for _, one := range leaves(only.Check()) {
		says := one.Error()
		for _, field := range []struct{ prefix, key, advice string }{
			{"Command: exec: ", "command", ": use the path of the program, or a name in PATH"},
			{"Command: ", "command", ""},
			{"Preload: ", "preload", ""},
			{"Preload ", "preload", ""},
			{"Sandbox.Allow has ", "sandbox.allow", ""},
			{"", "command", ""},
		} {
			if rest, ok := strings.CutPrefix(says, field.prefix); ok {
				l.fault(at+"."+field.key, "%s%s", rest, field.advice)
				break
			}
		}
	}
}

// leaves returns the individual errors that err joins.
func leaves(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, leaves(one)...)
	}
	return all
}
