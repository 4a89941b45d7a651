package settings

import (
	"reflect"
	"slices"
	"strings"
)

// key describes one setting of D. The parser, the reference and Diff are all driven
// by the tables of keys.
type key[D any] struct {
	path string // "http.listen"; for a pool without its name, "workers.min"
	kind string // how the value is written, for people
	use  string // advice for a fault
	// byDefault is the default as it would be written. In parentheses it is for
	// people only: the actual value is determined later.
	byDefault string
	does      string
	secret    bool // do not show the value: it is, contains, or may by mistake be a secret
	live      bool // a change takes effect with a reload
	set       func(*D, value) error
	same      func(a, b *D) bool
}

// row returns a key for a field. at returns a pointer to the field and must not
// change anything.
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

// reloaded marks that a change of k takes effect with a reload.
func reloaded[D any](k key[D]) key[D] {
	k.live = true
	return k
}

// hidden marks that the value of k must not be shown.
func hidden[D any](k key[D]) key[D] {
	k.secret = true
	return k
}

// table has all keys of D.
type table[D any] struct {
	keys     []key[D]
	byPath   map[string]*key[D]
	sections map[string][]string // the names in each mapping; the top level is ""
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

// cut splits a path into its mapping and the name in it.
func cut(path string) (section, name string, below bool) {
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		return path[:dot], path[dot+1:], true
	}
	return "", path, false
}

// defaults sets all fields of d to their defaults.
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

// variable returns the name of the environment variable for a path.
func variable(path string) string {
	return "BULLPEN_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}
