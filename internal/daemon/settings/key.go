package settings

import (
	"reflect"
	"slices"
	"strings"
)

// key is one setting, in D. The tables of them are all that there is to know
// about keys: the parser, the reference and the comparison of two configurations
// go by them.
type key[D any] struct {
	path string // "http.listen"; of a pool without its name, "workers.min"
	kind string // how it is written, for people
	use  string // what to write, for a fault
	// byDefault is its default as it would be written. In parentheses it is for
	// people only: what it becomes is found out later, or by who uses it.
	byDefault string
	does      string
	secret    bool // what is written is not to be shown: it is a secret, has one, or may be one by mistake
	live      bool // a reload is enough for a change
	set       func(*D, value) error
	same      func(a, b *D) bool
}

// row makes a key of a field. at must not change anything.
func row[D, T any](path string, k kind[T], byDefault, does string, at func(*D) *T) key[D] {
	return key[D]{
		path: path, kind: k.name, use: k.use, byDefault: byDefault, does: does,
		set: func(d *D, v value) error {
			t, err := k.parse(v)
			if err == nil {
				*at(d) = t
			}
			return err
		},
		same: func(a, b *D) bool { return reflect.DeepEqual(*at(a), *at(b)) },
	}
}

// reloaded says that a reload is enough for a change of k.
func reloaded[D any](k key[D]) key[D] {
	k.live = true
	return k
}

// hidden says that what is written for k is not to be shown.
func hidden[D any](k key[D]) key[D] {
	k.secret = true
	return k
}

// table is all keys of D.
type table[D any] struct {
	keys     []key[D]
	byPath   map[string]*key[D]
	sections map[string][]string // the names in each mapping; that of the whole is ""
}

func newTable[D any](keys []key[D]) *table[D] {
	t := &table[D]{keys: keys, byPath: make(map[string]*key[D]), sections: make(map[string][]string)}
	for i := range keys {
		path := keys[i].path
		t.byPath[path] = &keys[i]
		for path != "" {
			section, name, _ := cut(path)
			if !slices.Contains(t.sections[section], name) {
				t.sections[section] = append(t.sections[section], name)
			}
			path = section
		}
	}
	return t
}

// cut parts a path into the mapping and the name in it.
func cut(path string) (section, name string, below bool) {
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		return path[:dot], path[dot+1:], true
	}
	return "", path, false
}

// defaults fills d with the defaults.
func (t *table[D]) defaults(d *D) error {
	for i := range t.keys {
		k := &t.keys[i]
		if k.isNote() {
			continue
		}
		if err := k.set(d, value{shape: isScalar, text: k.byDefault, flat: true}); err != nil {
			return err
		}
	}
	return nil
}

// isNote reports whether byDefault is for people only.
func (k *key[D]) isNote() bool { return strings.HasPrefix(k.byDefault, "(") }

// variable is the name of the environment variable for a path.
func variable(path string) string {
	return "BULLPEN_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}
