package settings

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// environment reads keys from environment variables.
func (l *loader) environment(env []string) {
	for _, e := range env {
		name, text, _ := strings.Cut(e, "=")
		l.env[name] = text
	}
	byName := make(map[string]*key[Settings])
	for i := range daemonTable.keys {
		k := &daemonTable.keys[i]
		byName[variable(k.path)] = k
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		text, at := l.env[name], position{level: ofEnvironment, name: name}
		k := byName[name]
		switch {
		case k != nil && text != "":
			l.positions[k.path] = at
			set(l, k, l.settings, value{shape: isScalar, text: text, position: at, flat: true}, k.path)
		case k != nil || !looksLikeKey(name) || ofService(name):
		case strings.HasPrefix(name, "BULLPEN_POOLS_"):
			l.journal.add(at, name, "pools cannot be set by variables: use the configuration file")
		case insteadOf(name) != "":
			l.journal.add(at, name, "%s", insteadOf(name))
		default:
			says := "no such variable"
			if near := nearest(name, slices.Sorted(maps.Keys(byName))); near != "" {
				says += "; did you mean " + near + "?"
			} else {
				says += "; \"bullpen serve --help-config\" lists them"
			}
			l.journal.add(at, name, "%s", says)
		}
	}
}

// looksLikeKey reports whether a variable can only be meant as a key: other variables
// that begin with BULLPEN_ belong to other programs.
func looksLikeKey(name string) bool {
	rest, ours := strings.CutPrefix(name, "BULLPEN_")
	if !ours {
		return false
	}
	for section := range daemonTable.sections {
		if section != "" && !strings.ContainsRune(section, '.') && strings.HasPrefix(rest, strings.ToUpper(section)+"_") {
			return true
		}
	}
	return strings.HasPrefix(rest, "POOLS_")
}

// serviceVariable matches what Kubernetes adds to the environment of every container
// for a service, here one with a name such as bullpen-http.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

func ofService(name string) bool { return serviceVariable.MatchString(name) }

// flags reads keys from flags.
func (l *loader) flags(flags map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(flags)) {
		text, at := flags[path], position{level: ofFlag}
		k := daemonTable.byPath[path]
		switch {
		case k == nil && strings.HasPrefix(path, "pools."):
			l.journal.add(at, path, "pools cannot be set by flags: use the configuration file")
		case k == nil && instead(path) != "":
			l.journal.add(at, path, "%s", instead(path))
		case k == nil:
			says := "no such key"
			var names []string
			for _, k := range daemonTable.keys {
				names = append(names, k.path)
			}
			if near := nearest(path, names); near != "" {
				says += "; did you mean \"" + near + "\"?"
			}
			l.journal.add(at, path, "%s", says)
		case text != "":
			l.positions[path] = at
			set(l, k, l.settings, value{shape: isScalar, text: text, position: at, flat: true}, path)
		}
	}
}
