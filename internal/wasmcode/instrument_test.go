package wasmcode

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero/api"
)

type refusal struct {
	code []byte
	want error  // nil: an UnsupportedError
	text string // part of the message
}

func refusals() map[string]refusal {
	function := func(code ...byte) []byte { return runFunction(0, 0, code...) }
	limits := func(l ...byte) []byte { return build(vector(memorySection, l)) }
	return map[string]refusal{
		"nothing":            {nil, ErrNotModule, ""},
		"text":               {[]byte("(module)"), ErrNotModule, ""},
		"old version":        {[]byte("\x00asm\x0b\x00\x00\x00"), ErrNotModule, "version 11"},
		"component":          {[]byte("\x00asm\x0d\x00\x01\x00"), ErrComponent, "wasip1"},
		"later component":    {[]byte("\x00asm\x0e\x00\x01\x00"), ErrComponent, "wasip1"},
		"cut":                {endless()[:20], ErrMalformed, "too early"},
		"unknown section":    {build(raw(14, nil)), ErrMalformed, "section 14"},
		"sections":           {build(vector(functionSection), vector(typeSection)), ErrMalformed, "place"},
		"twice":              {build(vector(typeSection), vector(typeSection)), ErrMalformed, "place"},
		"bytes after":        {build(raw(typeSection, []byte{0, 0})), ErrMalformed, "1 bytes follow"},
		"many types":         {build(raw(typeSection, appendU32(nil, 1<<31))), ErrTooLarge, "types"},
		"long number":        {build(raw(typeSection, []byte{0xff, 0xff, 0xff, 0xff, 0x1f})), ErrMalformed, "32 bits"},
		"no body":            {build(vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0})), ErrMalformed, "bodies"},
		"flag":               {build(vector(globalSection, []byte{i32t, 0, opI32Const, 0, opEnd}), vector(exportSection, exported("bullpen:flag", GlobalKind, 0))), ErrReserved, "bullpen:flag"},
		"function":           {function(opCall, 1), ErrMalformed, "function 1"},
		"global":             {function(opGlobalGet, 0, opDrop), ErrMalformed, "global 0"},
		"label":              {function(opBr, 1), ErrMalformed, "label 1"},
		"instruction":        {function(0x27), ErrMalformed, "0x27"},
		"bulk instruction":   {function(opBulk, 18), ErrMalformed, "0x12"},
		"long instruction":   {function(opBulk, 0x80, 1), ErrMalformed, "0x80"},
		"vector instruction": {function(opVector, 0x9a, 1), ErrMalformed, "known"},
		"vector form":        {function(opVector, 0x8c, 0), ErrMalformed, "known"},
		"else":               {function(opElse), ErrMalformed, "else"},
		"open block":         {function(opBlock, noResult), ErrMalformed, "early"},
		"after the end":      {function(opEnd, 1), ErrMalformed, "follow"},
		"no memory":          {build(vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0}), vector(codeSection, function0(opMemorySize, 0, opDrop))), ErrMalformed, "memory"},
		"blocks":             {function(append(bytes.Repeat([]byte{opBlock, noResult}, mostOpen+1), bytes.Repeat([]byte{opEnd}, mostOpen+1)...)...), ErrTooLarge, "blocks"},
		"locals":             {build(vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0}), vector(codeSection, functionWith(append(appendU32([]byte{1}, 1<<30), i32t)))), ErrTooLarge, "locals"},
		"table":              {build(vector(tableSection, append([]byte{0x70, 0}, appendU32(nil, 1<<30)...))), ErrTooLarge, "tables"},
		"memory pages":       {limits(append([]byte{0}, appendU32(nil, 65537)...)...), ErrMalformed, "pages"},
	}
}

func unsupported() map[string]refusal {
	function := func(code ...byte) []byte { return runFunction(0, 0, code...) }
	limits := func(l ...byte) []byte { return build(vector(memorySection, l)) }
	return map[string]refusal{
		"threads":            {limits(3, 1, 1), nil, "threads"},
		"atomic":             {function(0xfe, 3, 0), nil, "threads"},
		"memory64":           {limits(4, 1), nil, "64 bits"},
		"two memories":       {build(vector(memorySection, []byte{0, 1}, []byte{0, 1})), nil, "multiple memories"},
		"second memory":      {function(opI32Const, 0, 0x28, 0x42, 1, 0, opDrop), nil, "multiple memories"},
		"grow second memory": {function(opI32Const, 0, opMemoryGrow, 1, opDrop), nil, "multiple memories"},
		"tag":                {build(raw(tagSection, nil)), nil, "exceptions"},
		"try":                {function(0x06, noResult), nil, "exceptions"},
		"throw":              {function(0x08, 0), nil, "exceptions"},
		"tail call":          {function(0x12, 0), nil, "tail calls"},
		"call_ref":           {function(0x14, 0), nil, "typed function references"},
		"struct":             {build(vector(typeSection, []byte{0x5f, 0})), nil, "garbage-collected"},
		"relaxed":            {function(opVector, 0x80, 2), nil, "relaxed vector"},
		"constant":           {build(vector(globalSection, []byte{i32t, 0, opI32Const, 0, opI32Const, 0, opI32Add, opEnd})), nil, "extended constant"},
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	cases := refusals()
	maps.Copy(cases, unsupported())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Instrument(c.code)
			if err == nil {
				t.Fatal("not refused")
			}
			var unsupported *UnsupportedError
			if c.want != nil && !errors.Is(err, c.want) || c.want == nil && !errors.As(err, &unsupported) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q does not have %q", err, c.text)
			}
		})
	}
}

func TestModule(t *testing.T) {
	t.Parallel()
	code := build(
		vector(typeSection, signature(0, 0)),
		vector(importSection, append(appendName(appendName(nil, "env"), "log"), byte(Function), 0)),
		vector(functionSection, []byte{0}),
		vector(memorySection, []byte{1, 2, 5}),
		vector(globalSection, []byte{i32t, 1, opI32Const, 8, opEnd}, []byte{i64t, 0, opI64Const, 1, opEnd}),
		vector(exportSection, exported("_start", Function, 1), exported("memory", MemoryKind, 0)),
		raw(startSection, []byte{1}),
		vector(codeSection, function0(opI32Const, 9, opGlobalSet, 0)),
		custom(".debug_info", 1, 2, 3),
	)
	got := instrument(t, code)
	got.Code = nil
	want := &Module{
		Flag: "bullpen:flag", Ticks: "bullpen:ticks", Start: "bullpen:start",
		Restorable: true, Globals: []string{"bullpen:global.0"},
		Imports: []Import{{"env", "log", Function}},
		Exports: []Export{{"_start", Function}, {"memory", MemoryKind}},
		Memory:  &Memory{Min: 2, Max: 5},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestStartFunction checks that the start function runs when the host calls it, and once.
func TestStartFunction(t *testing.T) {
	t.Parallel()
	code := build(
		vector(typeSection, signature(0, 0)), vector(functionSection, []byte{0}),
		vector(globalSection, []byte{i32t, 1, opI32Const, 8, opEnd}),
		vector(exportSection, exported("g", GlobalKind, 0)),
		raw(startSection, []byte{0}),
		vector(codeSection, function0(opGlobalGet, 0, opI32Const, 1, opI32Add, opGlobalSet, 0)),
	)
	m := instrument(t, code)
	i := instantiate(t, interpreter(t), m.Code)
	if v := i.ExportedGlobal("g").Get(); v != 8 {
		t.Errorf("%d before the start function, want 8", v)
	}
	if _, err := i.ExportedFunction(m.Start).Call(context.Background()); err != nil {
		t.Fatal(err)
	}
	if v := i.ExportedGlobal("g").Get(); v != 9 {
		t.Errorf("%d after the start function, want 9", v)
	}
}

// TestNames checks that a trap names the functions, and the added ones.
func TestNames(t *testing.T) {
	t.Parallel()
	names := appendName([]byte{1, 0}, "work") // function 0
	code := append(endless(), custom("name", append([]byte{1, byte(len(names))}, names...)...)...)
	m := instrument(t, code)
	i := instantiate(t, compiler(t), m.Code)
	global(t, i, m.Flag).Set(1)
	_, err := i.ExportedFunction("run").Call(context.Background())
	if err == nil {
		t.Fatal("the guest ended by itself")
	}
	for _, want := range []string{"work", "bullpen:pause"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the trap does not name %s: %v", want, err)
		}
	}
}

// TestBadNames checks that damaged names are dropped, and the module is not.
func TestBadNames(t *testing.T) {
	t.Parallel()
	rt := interpreter(t)
	for name, names := range map[string][]byte{
		"count":        {0xff, 0xff, 0xff, 0x7f},
		"order":        {2, 0, 1, 'a', 0, 1, 'b'},
		"function":     {1, 9, 1, 'a'},
		"not UTF-8":    {1, 0, 1, 0xff},
		"cut":          {1, 0, 5, 'a'},
		"rest":         {1, 0, 1, 'a', 'b'},
		"empty":        {},
		"long section": nil,
	} {
		sub := append([]byte{1, byte(len(names))}, names...)
		if names == nil {
			sub = []byte{1, 200}
		}
		m := instrument(t, append(endless(), custom("name", sub...)...))
		c, err := rt.CompileModule(context.Background(), m.Code)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := c.ExportedFunctions()["run"].Name(); got != "" {
			t.Errorf("%s: the function is called %q", name, got)
		}
	}
}

// withParts returns a module of one function, with some of its sections replaced.
func withParts(parts map[int][]byte, code ...byte) []byte {
	var sections [][]byte
	defaults := map[int][]byte{
		typeSection:     vector(typeSection, signature(0, 0)),
		functionSection: vector(functionSection, []byte{0}),
		tableSection:    vector(tableSection, []byte{0x70, 0, 1}),
		memorySection:   vector(memorySection, []byte{0, 1}),
		codeSection:     vector(codeSection, function0(code...)),
	}
	for _, place := range sectionOrder {
		if s, ok := parts[place.id]; ok {
			sections = append(sections, s)
		} else {
			sections = append(sections, defaults[place.id])
		}
	}
	return build(sections...)
}

// TestRestorable checks which modules have state besides memory and numbers.
func TestRestorable(t *testing.T) {
	t.Parallel()
	imported := func(kind Kind, desc ...byte) map[int][]byte {
		return map[int][]byte{
			importSection: vector(importSection, append(append(appendName(appendName(nil, "e"), "x"), byte(kind)), desc...)),
			memorySection: nil, tableSection: nil,
		}
	}
	mutable := []byte{i32t, 1, opI32Const, 0, opEnd}
	data := map[int][]byte{dataCountSection: raw(dataCountSection, []byte{1}), dataSection: vector(dataSection, []byte{1, 1, 'x'})}
	for name, c := range map[string]struct {
		code []byte
		want bool
	}{
		"plain":            {withParts(nil), true},
		"globals":          {withParts(map[int][]byte{globalSection: vector(globalSection, mutable, mutable)}), true},
		"many globals":     {withParts(map[int][]byte{globalSection: vector(globalSection, slices.Repeat([][]byte{mutable}, mostOwn+1)...)}), false},
		"reference":        {withParts(map[int][]byte{globalSection: vector(globalSection, []byte{0x70, 1, opRefNull, 0x70, opEnd})}), false},
		"table.get":        {withParts(nil, opI32Const, 0, 0x25, 0, opDrop), true},
		"table.set":        {withParts(nil, opI32Const, 0, opRefNull, 0x70, opTableSet, 0), false},
		"table.grow":       {withParts(nil, opRefNull, 0x70, opI32Const, 0, opBulk, bulkTableGrow, 0, opDrop), false},
		"table.fill":       {withParts(nil, opI32Const, 0, opRefNull, 0x70, opI32Const, 0, opBulk, bulkTableFill, 0), false},
		"table.copy":       {withParts(nil, opI32Const, 0, opI32Const, 0, opI32Const, 0, opBulk, bulkTableCopy, 0, 0), false},
		"data.drop":        {withParts(data, opBulk, bulkDataDrop, 0), false},
		"memory.init":      {withParts(data, opI32Const, 0, opI32Const, 0, opI32Const, 1, opBulk, bulkMemoryInit, 0, 0), true},
		"imported memory":  {withParts(imported(MemoryKind, 0, 1)), false},
		"imported table":   {withParts(imported(TableKind, 0x70, 0, 1)), false},
		"imported global":  {withParts(imported(GlobalKind, i32t, 1)), false},
		"imported number":  {withParts(imported(GlobalKind, i32t, 0)), true},
		"imported handler": {withParts(imported(Function, 0)), true},
	} {
		m := instrument(t, c.code)
		if m.Restorable != c.want {
			t.Errorf("%s: restorable is %v", name, m.Restorable)
		}
		rt := interpreter(t)
		compiled, err := rt.CompileModule(context.Background(), m.Code)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = compiled.Close(context.Background())
	}
}

// TestTablesAreBounded checks that a guest cannot grow a table without end.
func TestTablesAreBounded(t *testing.T) {
	t.Parallel()
	code := build(
		vector(typeSection, signature(1, 1)), vector(functionSection, []byte{0}),
		vector(tableSection, []byte{0x70, 0, 1}, []byte{0x70, 1, 1, 3}),
		vector(exportSection, exported("run", Function, 0)),
		vector(codeSection, function0(opRefNull, 0x70, opLocalGet, 0, opBulk, bulkTableGrow, 0)),
	)
	i := instantiate(t, interpreter(t), instrument(t, code).Code)
	grow := func(by uint64) int32 {
		r, err := i.ExportedFunction("run").Call(context.Background(), by)
		if err != nil {
			t.Fatal(err)
		}
		return api.DecodeI32(r[0])
	}
	if got := grow(mostEntries/2 - 1); got != 1 {
		t.Errorf("growing to the bound returns %d, want the old size 1", got)
	}
	if got := grow(1); got != -1 {
		t.Errorf("growing beyond the bound returns %d, want -1", got)
	}
}
