package wasm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// The plug-ins are those of the tests of Extism's own SDK for Go.
const (
	pluginsModule = "github.com/extism/go-sdk@v1.7.1"
	pluginsSum    = "h1:lWJos6uY+tRFdlIHR+SJjwFDApY7OypS/2nMhiVQ9Sw="
)

// plugins returns the folder of the plug-ins.
var plugins = sync.OnceValues(func() (string, error) {
	download := exec.Command("go", "mod", "download", "-json", pluginsModule)
	download.Dir = os.TempDir() // outside of this module, which does not depend on it
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("%s cannot be downloaded: %w", pluginsModule, err)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	if module.Sum != pluginsSum {
		return "", fmt.Errorf("%s has the sum %s, want %s", pluginsModule, module.Sum, pluginsSum)
	}
	return filepath.Join(module.Dir, "wasm"), nil
})

func pluginPath(t *testing.T, name string) string {
	t.Helper()
	dir, err := plugins()
	if err != nil {
		t.Skip(err)
	}
	return filepath.Join(dir, name+".wasm")
}

func plugin(t *testing.T, name string, c Config) *Pool {
	t.Helper()
	c.Path = pluginPath(t, name)
	p := open(t, c)
	if s := p.Stats(); s.ABI != Extism {
		t.Fatalf("%s is called as a %v", name, s.ABI)
	}
	return p
}

func TestUnmodifiedPlugins(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Fresh, Restore, Stateless} {
		for _, c := range []struct {
			name, function, payload, want string
			config                        Config
		}{
			{"hello", "run_test", "", "Hello, world!", Config{}},
			{"alloc", "run_test", "", "", Config{}},
			{"config", "run_test", "", `{"config": "hello"}`, Config{Settings: map[string]string{"thing": "hello"}}},
			{"config", "run_test", "", `{"config": "<unset by host>"}`, Config{}},
			{"input_offset", "input_offset_length", "twelve bytes", string(binary.LittleEndian.AppendUint64(nil, 12)), Config{}},
		} {
			c.config.Mode = mode
			p := plugin(t, c.name, c.config)
			for range 3 {
				r, err := p.Execute(t.Context(), bullpen.Task{Name: c.function, Payload: []byte(c.payload)})
				if err != nil || string(r.Payload) != c.want {
					t.Errorf("%v: %s gave %q, %v, want %q", mode, c.name, r.Payload, err, c.want)
				}
			}
		}
		p := plugin(t, "fail", Config{Mode: mode})
		_, err := p.Execute(t.Context(), bullpen.Task{Name: "run_test"})
		if te := wantOutcome(t, err, bullpen.Failed); te.Message != "Some error message" {
			t.Errorf("%v: the failure is %q", mode, te.Message)
		}
	}
}

func TestFunctionsOfAPlugin(t *testing.T) {
	t.Parallel()
	p := plugin(t, "hello", Config{})
	if _, err := p.Execute(t.Context(), bullpen.Task{Name: "other"}); err == nil || !strings.Contains(err.Error(), "unknown task") {
		t.Errorf("an unknown function gave %v", err)
	}
	_, err := New(Config{Path: pluginPath(t, "hello"), Tasks: []string{"run_test", "other"}})
	if err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("a name in Tasks that is no function: %v", err)
	}
}

// lines is an observer that keeps lines and progress.
type lines struct {
	texts    []string
	progress []float64
}

func (l *lines) Progress(fraction float64, note string) {
	l.progress, l.texts = append(l.progress, fraction), append(l.texts, note)
}
func (l *lines) Log(line bullpen.LogLine) { l.texts = append(l.texts, line.Stream+": "+line.Text) }

// kernelCall makes a plug-in whose function f calls a function of the kernel with constant
// arguments, and drops the result.
func kernelCall(called string, params, results []byte, args ...int64) *builder {
	var body []any
	for n, param := range params {
		a := args[n]
		if param == 0x7f {
			body = append(body, opI32Const, int32(a))
		} else {
			body = append(body, opI64Const, a)
		}
	}
	body = append(body, opCall, 0)
	if len(results) > 0 {
		body = append(body, opDrop)
	}
	return &builder{
		pages:   1,
		imports: []imported{{extismModule, called, params, results}},
		funcs:   []function{{export: "f", body: code(body...)}},
	}
}

// TestPluginsThatLie gives the kernel offsets and sizes that are wrong.
func TestPluginsThatLie(t *testing.T) {
	t.Parallel()
	far := []int64{0, 1, 8, 1 << 20, 1<<32 - 1, 1 << 32, 1<<63 - 1, -1, -8}
	for _, f := range []struct {
		name            string
		params, results []byte
	}{
		{"alloc", vI64, vI64}, {"free", vI64, none}, {"length", vI64, vI64}, {"length_unsafe", vI64, vI64},
		{"load_u8", vI64, vI32}, {"load_u64", vI64, vI64}, {"input_load_u8", vI64, vI32}, {"input_load_u64", vI64, vI64},
		{"store_u8", []byte{0x7e, 0x7f}, none}, {"store_u64", []byte{0x7e, 0x7e}, none}, {"output_set", []byte{0x7e, 0x7e}, none},
		{"error_set", vI64, none}, {"config_get", vI64, vI64}, {"var_get", vI64, vI64}, {"var_set", []byte{0x7e, 0x7e}, none},
		{"log_info", vI64, none},
	} {
		for _, at := range far {
			p := open(t, Config{Code: kernelCall(f.name, f.params, f.results, at, at).build(), Limits: bullpen.Limits{Memory: 1 << 20, Timeout: time.Minute}})
			_, err := p.Execute(t.Context(), bullpen.Task{Name: "f", Payload: []byte("ten bytes!")})
			o, started := bullpen.OutcomeOf(err)
			if !started || !slices.Contains([]bullpen.Outcome{bullpen.OK, bullpen.Failed, bullpen.Protocol, bullpen.Output}, o) {
				t.Errorf("%s with %d gave %v", f.name, at, err)
			}
		}
	}
}

func TestKernel(t *testing.T) {
	t.Parallel()
	k := &kernel{}
	m := &memory{bound: 1000}
	k.reset(m)
	a := k.keep([]byte("first"))
	b := k.keep([]byte("second"))
	if text, ok := k.block(a.offset); !ok || string(text) != "first" {
		t.Errorf("the first block is %q", text)
	}
	if _, ok := k.block(b.offset + 1); ok {
		t.Error("there is a block inside another one")
	}
	k.free(b.offset)
	if c := k.alloc(6); c != b.offset {
		t.Errorf("the room of the last block is not used again: %d, was %d", c, b.offset)
	} else if text, _ := k.block(c); string(text) != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("a new block has %q", text)
	}
	if at := k.alloc(990); at != 0 || m.refused == 0 {
		t.Errorf("a block beyond the bound is at %d, %d bytes were refused", at, m.refused)
	}
	if err := k.setVar(a.offset, a.offset); err != nil || string(k.vars["first"]) != "first" {
		t.Errorf("a variable is %q, %v", k.vars["first"], err)
	}
	if err := k.setVar(a.offset, 0); err != nil || len(k.vars) != 0 || k.varSize != 0 {
		t.Errorf("a deleted variable is there: %q, %v", k.vars, err)
	}
	k.reset(m)
	if _, ok := k.block(a.offset); ok {
		t.Error("a block is there after a reset")
	}
}
