package settings

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bullpen-run/bullpen/job"
)

// Source names the sources of a configuration.
type Source struct {
	// Path is the configuration file; empty for none.
	Path string
	// Text is the content of the file; nil reads Path.
	Text []byte
	// Env is the environment, "NAME=value".
	Env []string
	// Flags has values by the paths of their keys; an empty value counts as not
	// given.
	Flags map[string]string
	// CheckTokens returns what is wrong with the content of the file http.tokens; nil
	// skips the check.
	CheckTokens func(path string) error
}

// Load reads and checks a configuration. Flags take precedence over the environment,
// the environment over the file, and the file over the defaults. The error is
// [Faults], with all faults. Load starts nothing, so it does not find what only
// starting a worker can show, such as a sandbox that this system does not support.
func Load(source Source) (*Settings, error) {
	l := &loader{
		settings: &Settings{Path: source.Path, Pools: make(map[string]Pool), Schedules: make(map[string]job.Schedule)}, positions: make(map[string]position),
		env: make(map[string]string), checkTokens: source.CheckTokens,
	}
	l.journal.file = source.Path
	if source.Path == "" {
		l.journal.file = "configuration"
	}
	if err := daemonTable.defaults(l.settings); err != nil {
		return nil, err
	}
	if text, ok := l.text(source); ok {
		r := &reader{journal: &l.journal, folder: l.folder}
		if v, ok := r.read(text); ok {
			l.file(v)
		}
	}
	l.environment(source.Env)
	l.flags(source.Flags)
	l.complete()
	l.check()
	if err := l.journal.err(); err != nil {
		return nil, err
	}
	return l.settings, nil
}

// loader builds settings from a source.
type loader struct {
	journal   journal
	settings  *Settings
	folder    string              // folder of the file, absolute; empty without a file
	positions map[string]position // positions of all set keys and mappings, by path
	env       map[string]string

	checkTokens func(path string) error // nil skips the check
}

// text returns the content of the file; ok is false if there is none or it cannot be
// read.
func (l *loader) text(source Source) (text []byte, ok bool) {
	if source.Path != "" {
		folder, err := filepath.Abs(filepath.Dir(source.Path))
		if err != nil {
			l.journal.add(position{level: ofFile}, "", "its folder cannot be found: %v", err)
			return nil, false
		}
		l.folder = folder
	}
	if source.Text != nil || source.Path == "" {
		return source.Text, true
	}
	text, err := readFile(source.Path)
	if err != nil {
		l.journal.add(position{level: ofFile}, "", "it cannot be read: %v", reason(err))
		return nil, false
	}
	return text, true
}

// errIrregular means that a path is not a regular file, which can be read completely
// and repeatedly.
var errIrregular = errors.New("it is a folder, a pipe or a device, not a regular file")

// readFile reads a file, up to a little more than mostBytes. It never blocks on a
// pipe without a writer.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have replaced the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	return io.ReadAll(io.LimitReader(f, mostBytes+1))
}

// file reads keys from a file.
func (l *loader) file(v value) {
	if v.shape == isNull {
		return
	}
	if v.shape != isMapping {
		l.journal.add(v.position, "", "it is %s: use keys with values, such as \"pools:\"", shapeWords[v.shape])
		return
	}
	rest := value{shape: isMapping, position: v.position}
	for _, p := range v.pairs {
		switch {
		case p.name == "pools":
			l.positions["pools"] = p.position
			l.pools(p.value)
		case p.name == "schedules":
			l.positions["schedules"] = p.position
			l.schedules(p.value)
		case strings.HasPrefix(p.name, "x-"): // a place to define anchors
		default:
			rest.pairs = append(rest.pairs, p)
		}
	}
	walk(l, daemonTable, l.settings, rest, "", "")
}

// mostPools is far more than one daemon can serve.
const mostPools = 1000

func (l *loader) pools(v value) {
	switch v.shape {
	case isNull:
		return
	case isScalar, isList:
		l.journal.add(v.position, "pools", "it is %s: use names of pools with their settings", shapeWords[v.shape])
		return
	case isMapping:
		l.settings.PoolsGiven = true
	}
	for i, p := range v.pairs {
		if i == mostPools {
			l.journal.add(p.position, "pools", "there are %d: use at most %d", len(v.pairs), mostPools)
			return
		}
		at := join("pools", p.name)
		if !isToken(p.name) {
			l.journal.add(p.position, at, "%s is not a valid pool name: %s", quote(p.name), nameUse)
		}
		l.positions[at] = p.position
		var pool Pool
		if err := poolTable.defaults(&pool); err != nil {
			l.journal.add(p.position, at, "%v", err)
			continue
		}
		if p.value.shape != isNull {
			walk(l, poolTable, &pool, p.value, at+".", "")
		}
		l.settings.Pools[p.name] = pool
	}
}

// walk reads the keys of a mapping, which is the section named section of table t.
// prefix is prepended to the paths of t.
func walk[D any](l *loader, t *table[D], d *D, v value, prefix, section string) {
	if v.shape != isMapping {
		l.journal.add(v.position, strings.TrimSuffix(prefix+section, "."), "it is %s: use a mapping of %s", shapeWords[v.shape], strings.Join(t.sections[section], ", "))
		return
	}
	for _, p := range v.pairs {
		if l.journal.full() {
			return
		}
		path := p.name
		if section != "" {
			path = section + "." + p.name
		}
		k, names := t.byPath[path], t.sections[path]
		switch {
		case strings.ContainsRune(p.name, '.') || k == nil && names == nil:
			at := join(strings.TrimSuffix(prefix+section, "."), p.name)
			says := instead(at)
			if says == "" {
				says = t.unknown(section, p.name)
			}
			l.journal.add(p.position, at, "%s", says)
		case names != nil && (k == nil || p.value.shape == isMapping):
			l.positions[prefix+path] = p.position
			if p.value.shape != isNull {
				walk(l, t, d, p.value, prefix, path)
			}
		default:
			l.positions[prefix+path] = p.value.position
			set(l, k, d, p.value, prefix+path)
		}
	}
}

// set reads the value of one key.
func set[D any](l *loader, k *key[D], d *D, v value, path string) {
	if v.shape == isNull && v.position.level == ofFile {
		l.journal.add(v.position, path, "it has no value: %s, or leave the key out for the default", k.use)
		return
	}
	err := k.set(d, v)
	if err == nil {
		return
	}
	says := err.Error()
	if err == errUse { //nolint:errorlint // it is never wrapped: it stands for no text
		says = k.use
		if v.shape != isScalar {
			says = "it is " + shapeWords[v.shape] + ": " + says
		}
	}
	if v.shape == isScalar && !k.secret {
		says = quote(v.text) + ": " + says
	}
	l.journal.add(v.position, path, "%s", says)
}

// unknown returns a fault for an unknown key in a section of t, with the name that
// was probably meant.
func (t *table[D]) unknown(section, name string) string {
	names := t.sections[section]
	if above, last, dotted := cut(name); dotted && section == "" && t.byPath[name] != nil {
		return "no such key; write \"" + last + "\" below \"" + above + "\""
	}
	if near := nearest(name, names); near != "" {
		return "no such key; did you mean \"" + near + "\"?"
	}
	for _, k := range t.keys {
		if _, last, below := cut(k.path); below && last == name {
			return "no such key here; did you mean \"" + k.path + "\"?"
		}
		if k.path == name {
			return "no such key here; did you mean \"" + name + "\", further out?"
		}
	}
	if section == "" && poolTable.byPath[name] != nil && daemonTable.byPath[name] == nil && t.byPath["node"] != nil {
		return "no such key here; it belongs to a pool: did you mean \"pools.NAME." + name + "\"?"
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return "no such key; the keys here are " + strings.Join(sorted, ", ")
}
