package settings

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of a file: bytes, values after aliases are expanded, and depth of nested
// mappings.
const (
	mostBytes  = 1 << 20
	mostValues = 1 << 17
	mostDepth  = 32
)

// reader converts a file to a value.
type reader struct {
	journal *journal
	folder  string
	values  int
	full    bool // exceeding mostValues was reported
}

// read returns the value of a whole file; ok is false for an empty one.
func (r *reader) read(text []byte) (v value, ok bool) {
	start := position{level: ofFile, line: 1, column: 1}
	if len(text) > mostBytes {
		r.journal.add(start, "", "it has %d bytes: use at most %d", len(text), mostBytes)
		return value{}, false
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return value{position: start}, true
	}
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			r.journal.add(positionOf(&more), "", "a second document begins here: use only one")
			return value{}, false
		}
	}
	if !errors.Is(err, io.EOF) {
		line, says := syntaxFault(err)
		r.journal.add(position{level: ofFile, line: line}, "", "it is not YAML: %s", says)
		return value{}, false
	}
	before := len(r.journal.faults)
	v = r.value(&document, "", 0)
	return v, len(r.journal.faults) == before || v.shape == isMapping
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// countedFromZero are the prefixes of the messages in which the YAML library counts
// lines from 0.
var countedFromZero = []string{
	"did not find expected <", "did not find expected '", "did not find expected key", "did not find expected node", "did not find expected ',",
	"found undefined tag handle", "found duplicate %", "found incompatible YAML",
}

func syntaxFault(err error) (line int, says string) {
	says = err.Error()
	parts := yamlLine.FindStringSubmatch(says)
	if parts == nil {
		return 1, says
	}
	says = says[len(parts[0]):]
	line, _ = strconv.Atoi(parts[1])
	for _, beginning := range countedFromZero {
		if line > 0 && strings.HasPrefix(says, beginning) {
			line++
			break
		}
	}
	return max(line, 1), says
}

func positionOf(n *yaml.Node) position {
	return position{level: ofFile, line: max(n.Line, 1), column: max(n.Column, 1)}
}

// value converts one node to a value.
func (r *reader) value(n *yaml.Node, path string, depth int) value {
	v := value{position: positionOf(n), folder: r.folder}
	if r.values++; r.values > mostValues || depth > mostDepth {
		if !r.full {
			r.full = true
			r.journal.add(v.position, path, "too large: use at most %d values, counting aliases where they are used, and at most %d nested mappings", mostValues, mostDepth)
		}
		return v
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], path, depth+1)
	case yaml.AliasNode:
		return r.value(n.Alias, path, depth+1)
	case yaml.SequenceNode:
		v.shape = isList
		for _, one := range n.Content {
			v.list = append(v.list, r.value(one, path, depth+1))
		}
	case yaml.MappingNode:
		v.shape, v.pairs = isMapping, r.pairs(n, path, depth)
	case yaml.ScalarNode:
		v.shape, v.text = isScalar, n.Value
		if n.ShortTag() == "!!null" {
			v.shape = isNull
		}
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") && n.Tag != "!" {
		r.journal.add(v.position, path, "the tag %s has no meaning here: remove it", quote(n.Tag))
	}
	return v
}

// pairs returns the entries of a mapping, followed by those merged into it (<<) under
// other names.
func (r *reader) pairs(n *yaml.Node, path string, depth int) []pair {
	var own, merged []pair
	lines := make(map[string]int) // of the mapping's own keys
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, content := n.Content[i], n.Content[i+1]
		if name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		at := positionOf(n.Content[i])
		if name.Kind != yaml.ScalarNode {
			r.journal.add(at, path, "this key is %s: use a name", shapeWords[r.value(name, path, depth+1).shape])
			continue
		}
		if name.Tag == "!!merge" {
			merged = append(merged, r.merged(content, path, depth)...)
			continue
		}
		here := join(path, name.Value)
		if line, twice := lines[name.Value]; twice {
			r.journal.add(at, here, "it is already set at line %d: keep one of them", line)
			continue
		}
		lines[name.Value] = at.line
		own = append(own, pair{name: name.Value, position: at, value: r.value(content, here, depth+1)})
	}
	for _, p := range merged {
		if _, set := lines[p.name]; !set {
			lines[p.name] = p.position.line
			own = append(own, p)
		}
	}
	return own
}

// merged returns the entries of a merge: a mapping, or a list of mappings, where the
// first with a name wins.
func (r *reader) merged(n *yaml.Node, path string, depth int) []pair {
	v := r.value(n, path, depth+1)
	switch {
	case r.full: // and v is incomplete
	case v.shape == isMapping:
		return v.pairs
	case v.shape == isList:
		var all []pair
		for _, one := range v.list {
			if one.shape != isMapping {
				r.journal.add(one.position, path, "<< has %s in its list: use aliases of mappings", shapeWords[one.shape])
			}
			all = append(all, one.pairs...)
		}
		return all
	default:
		r.journal.add(v.position, path, "<< has %s: use an alias of a mapping", shapeWords[v.shape])
	}
	return nil
}

// join appends a name to the path of a mapping.
func join(path, name string) string {
	if len(name) > longestShown {
		name = name[:longestShown] + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// longestShown bounds how much of a value a fault shows.
const longestShown = 60

// quote returns a value in the form in which faults show it.
func quote(s string) string {
	if len(s) > longestShown {
		s = s[:longestShown] + "…"
	}
	return strconv.QuoteToGraphic(s)
}
