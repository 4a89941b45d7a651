package settings

// shape is the syntactic form of a value in the file.
type shape uint8

const (
	isNull shape = iota
	isScalar
	isList
	isMapping
)

var shapeWords = []string{isNull: "nothing", isScalar: "a single value", isList: "a list", isMapping: "a mapping"}

// value is the value written for a key. Aliases and merges are resolved.
type value struct {
	shape    shape
	text     string  // of a scalar
	list     []value // of a list
	pairs    []pair  // of a mapping, in order, each name once
	position position
	// folder is the base of relative paths; empty is the working directory.
	folder string
	// flat marks a value from the environment or a flag, where lists are separated by
	// commas.
	flat bool
}

// pair is one entry of a mapping.
type pair struct {
	name     string
	position position // position of the name
	value    value
}

// scalars returns the texts of a list of single values. A single value is a list of
// one.
func (v value) scalars() ([]string, bool) {
	if v.shape == isScalar {
		if v.flat {
			return splitList(v.text), true
		}
		return []string{v.text}, true
	}
	if v.shape != isList {
		return nil, false
	}
	texts := make([]string, 0, len(v.list))
	for _, one := range v.list {
		if one.shape != isScalar {
			return nil, false
		}
		texts = append(texts, one.text)
	}
	return texts, true
}
