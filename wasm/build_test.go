package wasm

import (
	"math"
	"testing"
)

// Opcodes and other bytes of the binary format.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opReturn      = 0x0f
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opI32Load     = 0x28
	opI32Load8    = 0x2d
	opI32Store    = 0x36
	opMemorySize  = 0x3f
	opMemoryGrow  = 0x40
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI32Eqz      = 0x45
	opI32Eq       = 0x46
	opI32GeU      = 0x4f
	opI32Add      = 0x6a
	opI64Or       = 0x84
	opI64Shl      = 0x86
	opI64Extend   = 0xad
	void          = 0x40
)

// builder makes modules by hand.
type builder struct {
	imports []imported
	funcs   []function
	pages   uint32 // 0 for no memory
	globals []int32
	data    map[uint32]string
	start   int // index of a function, -1 for none
}

type imported struct {
	module, name    string
	params, results []byte
}

type function struct {
	export          string // empty for none
	params, results []byte
	locals          int // i32
	body            []byte
}

func leb(n uint64) (b []byte) {
	for {
		c := byte(n & 0x7f)
		if n >>= 7; n == 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func sleb(n int64) (b []byte) {
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// code joins opcodes and their operands: an int is one byte, an int32 a signed operand, a
// uint32 an unsigned one, and []byte itself.
func code(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case int32:
			b = append(b, sleb(int64(p))...)
		case int64:
			b = append(b, sleb(p)...)
		case uint32:
			b = append(b, leb(uint64(p))...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

func name(s string) []byte { return append(leb(uint64(len(s))), s...) }

func section(id byte, count int, content []byte) []byte {
	if count == 0 {
		return nil
	}
	body := append(leb(uint64(count)), content...)
	return append(append([]byte{id}, leb(uint64(len(body)))...), body...)
}

func (m *builder) build() []byte {
	var types, imports, funcs, globals, exports, bodies, data []byte
	typeOf := func(params, results []byte) {
		types = append(types, code(0x60, uint32(len(params)), params, uint32(len(results)), results)...)
	}
	for n, i := range m.imports {
		typeOf(i.params, i.results)
		imports = append(imports, code(name(i.module), name(i.name), 0, uint32(n))...)
	}
	nexports := 0
	for n, f := range m.funcs {
		index := uint32(len(m.imports) + n)
		typeOf(f.params, f.results)
		funcs = append(funcs, leb(uint64(index))...)
		if f.export != "" {
			exports = append(exports, code(name(f.export), 0, index)...)
			nexports++
		}
		body := code(0)
		if f.locals > 0 {
			body = code(1, uint32(f.locals), 0x7f)
		}
		body = append(append(body, f.body...), opEnd)
		bodies = append(bodies, code(uint32(len(body)), body)...)
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, section(1, len(m.imports)+len(m.funcs), types)...)
	out = append(out, section(2, len(m.imports), imports)...)
	out = append(out, section(3, len(m.funcs), funcs)...)
	if m.pages > 0 {
		out = append(out, section(5, 1, code(0, m.pages))...)
		exports = append(exports, code(name("memory"), 2, uint32(0))...)
		nexports++
	}
	for _, g := range m.globals {
		globals = append(globals, code(0x7f, 1, opI32Const, g, opEnd)...)
	}
	out = append(out, section(6, len(m.globals), globals)...)
	out = append(out, section(7, nexports, exports)...)
	if m.start > 0 {
		start := leb(uint64(m.start))
		out = append(append(append(out, 8), leb(uint64(len(start)))...), start...)
	}
	out = append(out, section(10, len(m.funcs), bodies)...)
	for at, text := range m.data {
		data = append(data, code(0, opI32Const, int32(at), opEnd, name(text))...)
	}
	return append(out, section(11, len(m.data), data)...)
}

var (
	vI32 = []byte{0x7f}
	vI64 = []byte{0x7e}
	none []byte
)

// get pushes a local variable, num a constant.
func get(n uint32) []byte { return code(opLocalGet, n) }
func num(n int32) []byte  { return code(opI32Const, n) }

// packed is the result of bullpen_run: at and n push two i32.
func packed(at, n []byte) []byte {
	return code(at, opI64Extend, opI64Const, int64(32), opI64Shl, n, opI64Extend, opI64Or)
}

// reactor makes a module whose bullpen_run has a body, with the pointer in local 0 and the
// length in local 1. Global 0 is where bullpen_alloc takes memory next.
func reactor(locals int, body ...any) *builder {
	return &builder{
		pages: 2, globals: []int32{1 << 16},
		funcs: []function{
			{export: "bullpen_alloc", params: vI32, results: vI32, body: code(
				opGlobalGet, 0, // the result
				opGlobalGet, 0, get(0), opI32Add, opGlobalSet, 0)},
			{export: "bullpen_run", params: []byte{0x7f, 0x7f}, results: vI64, locals: locals, body: code(body...)},
		},
	}
}

// echo returns its payload.
func echo() *builder { return reactor(0, packed(get(0), get(1))) }

// nothing returns an empty result.
func nothing() *builder { return reactor(0, opI64Const, int64(0)) }

// spin never returns.
func spin() *builder { return reactor(0, opLoop, void, opBr, 0, opEnd, opI64Const, int64(0)) }

// recurse calls itself until the stack ends.
func recurse() *builder { return reactor(0, get(0), get(1), opCall, 1) }

// trap traps.
func trap() *builder { return reactor(0, opUnreachable) }

// counts returns how often it was called, one byte: in a global, and in memory.
func counts() *builder {
	b := reactor(0,
		opGlobalGet, 1, num(1), opI32Add, opGlobalSet, 1,
		num(16), opGlobalGet, 1, opI32Store, 0, 0,
		num(32), num(32), opI32Load8, 0, 0, num(1), opI32Add, opI32Store, 0, 0,
		num(17), num(32), opI32Load8, 0, 0, opI32Store, 0, 0,
		packed(num(16), num(2)))
	b.globals = append(b.globals, 0)
	return b
}

// hog grows its memory by 16 pages at a time, and traps when it gets no more.
func hog() *builder {
	return reactor(0, opLoop, void,
		num(16), opMemoryGrow, 0, num(-1), opI32Eq, opIf, void, opUnreachable, opEnd,
		opBr, 0, opEnd, opI64Const, int64(0))
}

// sum adds the words of four bytes in its payload, and returns the sum: a little work.
func sum() *builder {
	return reactor(2,
		opBlock, void, opLoop, void,
		get(2), get(1), opI32GeU, opBrIf, 1,
		get(3), get(0), get(2), opI32Add, opI32Load, 2, 0, opI32Add, opLocalSet, 3,
		get(2), num(4), opI32Add, opLocalSet, 2,
		opBr, 0, opEnd, opEnd,
		num(0), get(3), opI32Store, 2, 0,
		packed(num(0), num(4)))
}

func TestEncodingOfNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int64
		want string
	}{{0, "\x00"}, {63, "\x3f"}, {64, "\xc0\x00"}, {-1, "\x7f"}, {-64, "\x40"}, {-65, "\xbf\x7f"}, {math.MinInt32, "\x80\x80\x80\x80\x78"}} {
		if got := sleb(c.n); string(got) != c.want {
			t.Errorf("%d is %x, want %x", c.n, got, c.want)
		}
	}
}
