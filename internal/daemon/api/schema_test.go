package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is docs/openapi.yaml.
type document struct {
	root map[string]any
	mux  *http.ServeMux // finds the path of a request
}

var readDocument = sync.OnceValues(func() (*document, error) {
	text, err := os.ReadFile("../../../docs/openapi.yaml")
	if err != nil {
		return nil, err
	}
	d := &document{mux: http.NewServeMux()}
	if err := yaml.Unmarshal(text, &d.root); err != nil {
		return nil, err
	}
	for path := range d.paths() {
		d.mux.Handle(path, http.NotFoundHandler())
	}
	return d, nil
})

func openAPI(t testing.TB) *document {
	t.Helper()
	d, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// object gives a value that is a map.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// at returns what lies under a path of names, references followed.
func (d *document) at(v any, names ...string) any {
	for _, name := range names {
		v = d.follow(object(d.follow(v))[name])
	}
	return d.follow(v)
}

func (d *document) follow(v any) any {
	for {
		ref, ok := object(v)["$ref"].(string)
		if !ok {
			return v
		}
		v = d.root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			v = object(v)[name]
		}
		if v == nil {
			panic("docs/openapi.yaml refers to " + ref + ", which is not there")
		}
	}
}

func (d *document) paths() map[string]any { return object(d.root["paths"]) }

// parameters returns the schemas of an operation's parameters, by "in name".
func (d *document) parameters(op map[string]any) map[string]any {
	all := map[string]any{}
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		m := object(d.follow(p))
		all[fmt.Sprint(m["in"], " ", m["name"])] = m["schema"]
	}
	return all
}

// validate returns what is wrong with a value of JSON. Objects have no other
// properties than a schema names: later versions may add some, this one does not.
func (d *document) validate(where string, schema, v any) []string {
	s := object(d.follow(schema))
	if len(s) == 0 {
		return nil
	}
	var faults []string
	bad := func(format string, args ...any) {
		faults = append(faults, where+": "+fmt.Sprintf(format, args...))
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		bad("%v is none of %v", v, enum)
	}
	kind := s["type"]
	if list, ok := kind.([]any); ok { // one type, or null
		if kind = list[0]; v == nil && slices.Contains(list, any("null")) {
			return faults
		}
	}
	switch kind {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			bad("%v is no object", v)
			break
		}
		return append(faults, d.validateObject(where, s, m)...)
	case "array":
		list, ok := v.([]any)
		if !ok {
			bad("%v is no array", v)
		}
		for i, e := range list {
			faults = append(faults, d.validate(fmt.Sprintf("%s[%d]", where, i), s["items"], e)...)
		}
	case "string":
		text, ok := v.(string)
		if !ok || !acceptsText(s, text) {
			bad("%v is not of %v", v, s)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			bad("%v is no boolean", v)
		}
	case "integer", "number":
		n, ok := v.(float64)
		if !ok || !acceptsNumber(s, n) {
			bad("%v is not of %v", v, s)
		}
	default:
		bad("the schema has the type %v", s["type"])
	}
	return faults
}

func (d *document) validateObject(where string, s, m map[string]any) (faults []string) {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := m[name.(string)]; !ok {
			faults = append(faults, fmt.Sprintf("%s: %v is missing", where, name))
		}
	}
	properties := object(s["properties"])
	for name, e := range m {
		schema, known := properties[name]
		if !known {
			schema = s["additionalProperties"]
		}
		if object(schema) == nil {
			faults = append(faults, where+": "+name+" is not in the schema")
			continue
		}
		faults = append(faults, d.validate(where+"."+name, schema, e)...)
	}
	return faults
}

func acceptsText(s map[string]any, text string) bool {
	if pattern, ok := s["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
		return false
	}
	if not := object(s["not"]); not != nil && acceptsText(not, text) {
		return false
	}
	if most, ok := s["maxLength"].(int); ok && utf8.RuneCountInString(text) > most {
		return false
	}
	if s["format"] == "date-time" {
		_, err := readTime(text)
		return err == nil
	}
	least, _ := s["minLength"].(int)
	return utf8.RuneCountInString(text) >= least
}

func acceptsNumber(s map[string]any, n float64) bool {
	if least, ok := s["minimum"].(int); ok && n < float64(least) {
		return false
	}
	if most, ok := s["maximum"].(int); ok && n > float64(most) {
		return false
	}
	return s["type"] != "integer" || n == math.Trunc(n)
}

// conforms checks that an answer is one that docs/openapi.yaml knows.
func (d *document) conforms(t testing.TB, method, path string, r reply) {
	t.Helper()
	request, err := http.NewRequest(method, "http://host"+path, http.NoBody) // it is never sent
	if err != nil {
		t.Fatal(err)
	}
	_, pattern := d.mux.Handler(request)
	op := object(d.at(d.root, "paths", pattern, strings.ToLower(method)))
	if op == nil {
		return // there is no such thing, as the answer says too
	}
	where := fmt.Sprintf("%s %s: %d", method, path, r.status)
	response := object(d.at(op, "responses", fmt.Sprint(r.status)))
	if response == nil {
		t.Errorf("%s %s is not documented", where, r.body)
		return
	}
	content := object(response["content"])
	is := r.header.Get("Content-Type")
	if len(content) == 0 && r.body == "" {
		return
	}
	media, ok := content[is]
	if !ok {
		t.Errorf("%s: the type %q is not documented", where, is)
		return
	}
	schema := object(media)["schema"]
	if schema == nil || !strings.HasSuffix(is, "json") || strings.HasSuffix(is, "ndjson") {
		return
	}
	var v any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	for _, fault := range d.validate("body", schema, v) {
		t.Errorf("%s: %s\n%s", where, fault, r.body)
	}
}
