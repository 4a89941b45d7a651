package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/bullpen-run/bullpen/internal/wasmcode"
)

// An ABI is how the host calls a module.
type ABI uint8

const (
	// Command is a program that WASI starts for one task: its standard input is the
	// payload, its standard output the result.
	Command ABI = iota + 1
	// Reactor exports bullpen_run, which the host calls for each task.
	Reactor
	// Extism is a plug-in of Extism, whose functions are the tasks.
	Extism
)

var abiNames = [...]string{Command: "command", Reactor: "reactor", Extism: "extism"}

// String returns the name of a.
func (a ABI) String() string {
	if a > 0 && int(a) < len(abiNames) {
		return abiNames[a]
	}
	return fmt.Sprintf("abi(%d)", uint8(a))
}

// Names of exports.
const (
	exportStart      = "_start"
	exportInitialize = "_initialize"
	exportCtors      = "__wasm_call_ctors"
	exportHaskell    = "hs_init"
	exportAlloc      = "bullpen_alloc"
	exportRun        = "bullpen_run"
	exportMemory     = "memory"
)

// module is a compiled module, with all that its instances share. It does not change after
// load.
type module struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil if none is configured
	compiled wazero.CompiledModule
	code     *wasmcode.Module
	abi      ABI
	mode     Mode            // what is done; it may be less than Config.Mode
	least    int64           // the memory with which an instance begins
	tasks    map[string]bool // nil for any
	speaks   bool            // it imports the functions of module bullpen
	environ  bool            // it reads its environment
	begin    []string        // exports to call once in each new instance
	args     []string
	env      [][2]string
	mounts   []*mount
	fs       wazero.FSConfig
}

func (m *module) serves(name string) bool { return m.tasks == nil || m.tasks[name] }

// load reads, rewrites and compiles the module of c, and checks all that it asks for.
func load(c *Config) (m *module, err error) {
	code := c.Code
	if c.Path != "" {
		if code, err = os.ReadFile(c.Path); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(strings.TrimSpace(string(code[:min(len(code), 64)])), "(module") {
		return nil, errors.New("the module is in the text format: convert it with wat2wasm or wasm-tools")
	}
	m = &module{}
	if m.code, err = wasmcode.Instrument(code); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
			m = nil
		}
	}()
	ctx := context.Background()
	config := wazero.NewRuntimeConfig()
	if c.CacheDir != "" {
		if m.cache, err = openCache(c.CacheDir); err != nil {
			return m, err
		}
		config = config.WithCompilationCache(m.cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := m.offer(ctx); err != nil {
		return m, err
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, m.code.Code); err != nil {
		return m, err
	}
	m.code.Code = nil
	if err := errors.Join(m.recognize(c), m.sized(c)); err != nil {
		return m, err
	}
	m.args = append([]string{c.Name}, c.Args...)
	for _, pair := range c.Env {
		name, value, _ := strings.Cut(pair, "=")
		m.env = append(m.env, [2]string{name, value})
	}
	return m, m.mount(c.Mounts)
}

// offer makes the host's modules, of which the module imports some.
func (m *module) offer(ctx context.Context) error {
	offered := map[string]bool{}
	for _, b := range []interface {
		Compile(ctx context.Context) (wazero.CompiledModule, error)
	}{
		wasi_snapshot_preview1.NewBuilder(m.runtime), bullpenFunctions(m.runtime), extismFunctions(m.runtime),
	} {
		host, err := b.Compile(ctx)
		if err != nil {
			return err
		}
		for name := range host.ExportedFunctions() {
			offered[host.Name()+" "+name] = true
		}
		if _, err := m.runtime.InstantiateModule(ctx, host, wazero.NewModuleConfig()); err != nil {
			return err
		}
	}
	var errs []error
	for _, i := range m.code.Imports {
		switch {
		case i.Kind != wasmcode.Function:
			errs = append(errs, fmt.Errorf("it imports the %v %q of module %q: a guest can import functions only", i.Kind, i.Name, i.Module))
		case !offered[i.Module+" "+i.Name]:
			errs = append(errs, fmt.Errorf("it imports the function %q of module %q, which this host does not have: %s", i.Name, i.Module, advice(i.Module, i.Name)))
		}
		m.speaks = m.speaks || i.Module == bullpenModule
		m.environ = m.environ || i.Name == "environ_get"
	}
	return errors.Join(errs...)
}

// advice says what to do about an import that is not offered.
func advice(module, name string) string {
	switch {
	case strings.HasPrefix(module, "wasi_snapshot_preview1"):
		return "build the module for WASI preview 1"
	case strings.HasPrefix(module, "wasi"):
		return "build the module for WASI preview 1, whose functions are in wasi_snapshot_preview1"
	case module == extismModule && strings.HasPrefix(name, "http_"):
		return "a task has no network: fetch before, and pass the answer as the payload"
	case strings.HasPrefix(module, "extism:host"):
		return "functions of an Extism host that are its own do not exist here"
	case module == "env", module == "gojs":
		return "build the module for WASI preview 1, not for a browser"
	default:
		return "leave it out, or use a process pool"
	}
}

// recognize finds out how the module is called, and what it serves.
func (m *module) recognize(c *Config) error {
	functions := m.compiled.ExportedFunctions()
	m.mode = c.Mode
	if m.mode == Restore && (!m.code.Restorable || len(c.Mounts) > 0) {
		m.mode = Fresh
	}
	if c.Tasks != nil {
		m.tasks = map[string]bool{}
		for _, name := range c.Tasks {
			m.tasks[name] = true
		}
	}
	plugin := slices.ContainsFunc(m.code.Imports, func(i wasmcode.Import) bool { return i.Module == extismModule })
	_, run := functions[exportRun]
	_, start := functions[exportStart]
	for _, name := range []string{exportInitialize, exportCtors} {
		if isVoid(functions[name]) && (plugin || !start) {
			m.begin = append(m.begin, name)
			break
		}
	}
	if m.code.Start != "" {
		m.begin = slices.Insert(m.begin, 0, m.code.Start)
	}
	switch {
	case run:
		m.abi = Reactor
		return errors.Join(signature(functions, exportAlloc, []api.ValueType{i32}, []api.ValueType{i32}),
			signature(functions, exportRun, []api.ValueType{i32, i32}, []api.ValueType{i64}), m.hasMemory())
	case start && !plugin:
		m.abi = Command
		if c.Mode != Fresh {
			return fmt.Errorf("it is a command of WASI, which ends with its task, so its mode cannot be %v: use %v, or build a reactor that exports %s (docs/wasm.md)", c.Mode, Fresh, exportRun)
		}
		m.begin = append(m.begin, exportStart)
		return signature(functions, exportStart, nil, nil)
	}
	m.abi = Extism
	return m.functions(c, functions)
}

// functions finds the functions of a plug-in.
func (m *module) functions(c *Config, all map[string]api.FunctionDefinition) error {
	served := map[string]bool{}
	for name, f := range all {
		internal := strings.HasPrefix(name, "_") || strings.HasPrefix(name, wasmcode.Reserved) || name == exportHaskell
		if len(f.ParamTypes()) == 0 && !internal && (isVoid(f) || len(f.ResultTypes()) == 1 && f.ResultTypes()[0] == i32) {
			served[name] = true
		}
	}
	if len(served) == 0 {
		return fmt.Errorf("it exports neither %s (a command of WASI) nor %s (docs/wasm.md) nor a function of an Extism plug-in", exportStart, exportRun)
	}
	var errs []error
	for _, name := range c.Tasks {
		if !served[name] {
			errs = append(errs, fmt.Errorf("Tasks has %q, which is no function of the plug-in", name))
		}
	}
	if m.tasks == nil {
		m.tasks = served
	}
	return errors.Join(errs...)
}

func (m *module) hasMemory() error {
	if m.code.Memory == nil || m.compiled.ExportedMemories()[exportMemory] == nil {
		return fmt.Errorf("it does not export its memory as %q, through which payloads and results pass", exportMemory)
	}
	return nil
}

// sized checks the memory with which an instance begins.
func (m *module) sized(c *Config) error {
	if m.code.Memory == nil {
		return nil
	}
	m.least = int64(m.code.Memory.Min) * page
	if m.least > c.Limits.Memory {
		return fmt.Errorf("limit Memory is %s, but an instance begins with %s", size(c.Limits.Memory), size(m.least))
	}
	return nil
}

func isVoid(f api.FunctionDefinition) bool {
	return f != nil && len(f.ParamTypes()) == 0 && len(f.ResultTypes()) == 0
}

func signature(all map[string]api.FunctionDefinition, name string, params, results []api.ValueType) error {
	f := all[name]
	if f == nil {
		return fmt.Errorf("it does not export the function %s (docs/wasm.md)", name)
	}
	if !slices.Equal(f.ParamTypes(), params) || !slices.Equal(f.ResultTypes(), results) {
		return fmt.Errorf("its export %s has the wrong type: docs/wasm.md has the right one", name)
	}
	return nil
}

// mount opens the mapped folders.
func (m *module) mount(all []Mount) error {
	m.fs = wazero.NewFSConfig()
	with, ok := m.fs.(sysfs.FSConfig)
	if !ok {
		return errors.New("wazero has changed how folders are mapped")
	}
	for _, one := range all {
		folder, err := openMount(one)
		if err != nil {
			return err
		}
		m.mounts = append(m.mounts, folder)
		if one.Guest == "" {
			one.Guest = one.Host
		}
		m.fs = with.WithSysFSMount(folder, one.Guest)
		with = m.fs.(sysfs.FSConfig) //nolint:forcetypeassert // as above
	}
	return nil
}

// close releases what load has taken. No instance is left.
func (m *module) close() error {
	ctx := context.Background()
	var errs []error
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	for _, folder := range m.mounts {
		errs = append(errs, folder.root.Close())
	}
	return errors.Join(errs...)
}
