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

// Source says where a configuration comes from.
type Source struct {
	// Path is the configuration file; empty for none.
	Path string
	// Text is what the file has; nil reads Path.
	Text []byte
	// Env is the environment, "NAME=value".
	Env []string
	// Flags are values by the paths of their keys; one that is empty is as if it
	// was not there.
	Flags map[string]string
	// CheckTokens reports what is wrong with the file of http.tokens, which can be
	// read; nil does not look into it.
	CheckTokens func(path string) error
}

// Load reads and checks a configuration: flags go before the environment, that
// before the file, and that before the defaults. The error is [Faults], with all
// that is wrong. It starts nothing; what only the start of a worker can show, such
// as a sandbox that this system cannot make, it does not find.
func Load(source Source) (*Settings, error) {
	l := &loader{
		settings: &Settings{Path: source.Path, Pools: make(map[string]Pool), Schedules: make(map[string]job.Schedule)}, places: make(map[string]place),
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

// loader makes settings of a source.
type loader struct {
	journal  journal
	settings *Settings
	folder   string           // of the file, absolute; empty without one
	places   map[string]place // of all that was set, by path; also of mappings
	env      map[string]string

	checkTokens func(path string) error // nil does not look
}

// text returns what the file has. false is none, or one that cannot be read.
func (l *loader) text(source Source) (text []byte, ok bool) {
	if source.Path != "" {
		folder, err := filepath.Abs(filepath.Dir(source.Path))
		if err != nil {
			l.journal.add(place{level: ofFile}, "", "its folder cannot be found: %v", err)
			return nil, false
		}
		l.folder = folder
	}
	if source.Text != nil || source.Path == "" {
		return source.Text, true
	}
	text, err := readFile(source.Path)
	if err != nil {
		l.journal.add(place{level: ofFile}, "", "it cannot be read: %v", reason(err))
		return nil, false
	}
	return text, true
}

// errIrregular says that something is no file that can be read from its beginning
// to its end whenever that is needed.
var errIrregular = errors.New("it is no regular file, but a folder, a pipe or a device: name a file")

// readFile reads a file, a little more than mostBytes of it at most. It does not
// wait for anybody to write into a pipe.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have come in its place
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

// file takes the values of a file.
func (l *loader) file(v value) {
	if v.shape == isNull {
		return
	}
	if v.shape != isMapping {
		l.journal.add(v.place, "", "it is %s: use keys with values, such as \"pools:\"", shapeWords[v.shape])
		return
	}
	rest := value{shape: isMapping, place: v.place}
	for _, p := range v.pairs {
		switch {
		case p.name == "pools":
			l.places["pools"] = p.place
			l.pools(p.value)
		case p.name == "schedules":
			l.places["schedules"] = p.place
			l.schedules(p.value)
		case strings.HasPrefix(p.name, "x-"): // a place for anchors
		default:
			rest.pairs = append(rest.pairs, p)
		}
	}
	walk(l, daemonTable, l.settings, rest, "", "")
}

// mostPools is far beyond what one daemon can serve.
const mostPools = 1000

func (l *loader) pools(v value) {
	switch v.shape {
	case isNull:
		return
	case isScalar, isList:
		l.journal.add(v.place, "pools", "it is %s: use names of pools with their settings", shapeWords[v.shape])
		return
	case isMapping:
		l.settings.PoolsGiven = true
	}
	for i, p := range v.pairs {
		if i == mostPools {
			l.journal.add(p.place, "pools", "there are %d: use %d at most", len(v.pairs), mostPools)
			return
		}
		at := join("pools", p.name)
		if !isToken(p.name) {
			l.journal.add(p.place, at, "%s is no name of a pool: %s", quote(p.name), nameUse)
		}
		l.places[at] = p.place
		var pool Pool
		if err := poolTable.defaults(&pool); err != nil {
			l.journal.add(p.place, at, "%v", err)
			continue
		}
		if p.value.shape != isNull {
			walk(l, poolTable, &pool, p.value, at+".", "")
		}
		l.settings.Pools[p.name] = pool
	}
}

// walk takes the values of a mapping that has the path section in the table t.
// prefix stands before the paths of t.
func walk[D any](l *loader, t *table[D], d *D, v value, prefix, section string) {
	if v.shape != isMapping {
		l.journal.add(v.place, strings.TrimSuffix(prefix+section, "."), "it is %s: use a mapping of %s", shapeWords[v.shape], strings.Join(t.sections[section], ", "))
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
			l.journal.add(p.place, at, "%s", says)
		case names != nil && (k == nil || p.value.shape == isMapping):
			l.places[prefix+path] = p.place
			if p.value.shape != isNull {
				walk(l, t, d, p.value, prefix, path)
			}
		default:
			l.places[prefix+path] = p.value.place
			set(l, k, d, p.value, prefix+path)
		}
	}
}

// set takes the value of one key.
func set[D any](l *loader, k *key[D], d *D, v value, path string) {
	if v.shape == isNull && v.place.level == ofFile {
		l.journal.add(v.place, path, "it has no value: %s, or leave the key out for the default", k.use)
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
	l.journal.add(v.place, path, "%s", says)
}

// unknown says that a section of t has no such key, and what was probably meant.
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
