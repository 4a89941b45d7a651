package wasmcode

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// script is a file of the specification's test suite.
type script struct {
	Commands []command `json:"commands"`
}

type command struct {
	Type     string `json:"type"`
	Line     int    `json:"line"`
	Name     string `json:"name"`
	As       string `json:"as"`
	Filename string `json:"filename"`
	Action   action `json:"action"`
}

type action struct {
	Type   string  `json:"type"`
	Module string  `json:"module"`
	Field  string  `json:"field"`
	Args   []value `json:"args"`
}

type value struct {
	Type  string          `json:"type"`
	Lane  string          `json:"lane_type"`
	Value json.RawMessage `json:"value"`
}

// TestSpecification runs the scripts of the specification's test suite on the modules as they
// are and as Instrument returns them, and compares every result and every trap.
func TestSpecification(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(wazeroFolder(t), "internal/integration_test/spectest")
	files, err := filepath.Glob(filepath.Join(folder, "v2/testdata/*.json"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scripts, error %v: has wazero moved them?", len(files), err)
	}
	host, err := os.ReadFile(filepath.Join(folder, "testdata/spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for n, file := range files {
		if testing.Short() && n%10 != 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			calls += runScript(t, file, host)
		})
	}
	t.Logf("%d calls compared", calls)
}

func runScript(t *testing.T, file string, host []byte) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s script
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	before, after := newSide(t, host, false), newSide(t, host, true)
	calls := 0
	for i, c := range s.Commands {
		switch c.Type {
		case "module", "assert_uninstantiable":
			code, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			as := registered(s.Commands[i:], c.Name)
			a, b := before.instantiate(c.Name, as, code), after.instantiate(c.Name, as, code)
			if (a == nil) != (b == nil) {
				t.Errorf("line %d: instantiating gives %v, and instrumented %v", c.Line, a, b)
			}
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			calls++
			a, b := before.act(c.Action), after.act(c.Action)
			if a != b {
				t.Errorf("line %d: %s %s gives %s, and instrumented %s", c.Line, c.Action.Type, c.Action.Field, a, b)
			}
		}
	}
	return calls
}

// registered returns the name under which others will import from the module of the first
// command.
func registered(later []command, name string) string {
	for i, c := range later {
		if c.Type == "register" && (c.Name == name && name != "" || c.Name == "") {
			return c.As
		}
		if i > 0 && c.Type == "module" && name == "" {
			break
		}
	}
	return ""
}

// side has the modules of a script, either as they are or instrumented.
type side struct {
	rt           wazero.Runtime
	instrumented bool
	named        map[string]api.Module
	last         api.Module
}

func newSide(t *testing.T, host []byte, instrumented bool) *side {
	t.Helper()
	s := &side{rt: compiler(t), instrumented: instrumented, named: map[string]api.Module{}}
	c := wazero.NewModuleConfig().WithName("spectest")
	if _, err := s.rt.InstantiateWithConfig(context.Background(), host, c); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *side) instantiate(name, as string, code []byte) error {
	ctx := context.Background()
	start := ""
	if s.instrumented {
		m, err := Instrument(code)
		if err != nil {
			return err
		}
		code, start = m.Code, m.Start
	}
	i, err := s.rt.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().WithName(as).WithStartFunctions())
	if err != nil {
		return err
	}
	if start != "" {
		if _, err := i.ExportedFunction(start).Call(ctx); err != nil {
			return err
		}
	}
	s.last = i
	if name != "" {
		s.named[name] = i
	}
	return nil
}

// act does what a command says and returns what came of it, as a text.
func (s *side) act(a action) string {
	i := s.last
	if a.Module != "" {
		i = s.named[a.Module]
	}
	if i == nil {
		return "there is no module"
	}
	if a.Type == "get" {
		g := i.ExportedGlobal(a.Field)
		if g == nil {
			return "there is no global"
		}
		return fmt.Sprint(g.Get())
	}
	f := i.ExportedFunction(a.Field)
	if f == nil {
		return "there is no function"
	}
	var args []uint64
	for _, v := range a.Args {
		words, err := v.words()
		if err != nil {
			return err.Error()
		}
		args = append(args, words...)
	}
	results, err := f.Call(context.Background(), args...)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return line
	}
	for n, t := range f.Definition().ResultTypes() {
		if t == 0x70 && len(results) > n { // the address of a function
			results[n] = min(results[n], 1)
		}
	}
	return fmt.Sprint(results)
}

// words returns a value as wazero takes it.
func (v value) words() ([]uint64, error) {
	if v.Type == "v128" {
		return v.lanes()
	}
	var s string
	if err := json.Unmarshal(v.Value, &s); err != nil {
		return nil, err
	}
	switch {
	case s == "null":
		return []uint64{0}, nil
	case v.Type == "externref":
		n, err := strconv.ParseUint(s, 10, 64)
		return []uint64{n + 1}, err
	}
	n, err := number(v.Type, s)
	return []uint64{n}, err
}

func (v value) lanes() ([]uint64, error) {
	var texts []string
	if err := json.Unmarshal(v.Value, &texts); err != nil {
		return nil, err
	}
	words := make([]uint64, 2)
	width := 128 / len(texts)
	for i, s := range texts {
		n, err := number(v.Lane, s)
		if err != nil {
			return nil, err
		}
		words[i*width/64] |= n & (math.MaxUint64 >> (64 - width)) << (i * width % 64)
	}
	return words, nil
}

// number reads the bits of a number.
func number(kind, s string) (uint64, error) {
	switch {
	case strings.HasPrefix(s, "nan:") && kind == "f32":
		return uint64(math.Float32bits(float32(math.NaN()))), nil
	case strings.HasPrefix(s, "nan:"):
		return math.Float64bits(math.NaN()), nil
	case strings.HasPrefix(s, "-"):
		n, err := strconv.ParseInt(s, 10, 64)
		return uint64(n), err
	}
	return strconv.ParseUint(s, 10, 64)
}
