package wasmcode

// generator makes a valid module out of bytes. Its functions end: each entry and each
// iteration takes from a budget, and a trap follows when it is used up.
type generator struct {
	in  []byte
	out []byte
	// depth bounds the size of what is generated; labels are the blocks that are open.
	depth, labels int
}

const (
	budget       = 3000
	generated    = 4 // functions of two i32 to i32, exported as f0 to f3
	budgetGlobal = 0
	i32Global    = 1
	i64Global    = 2
	i32Locals    = 4 // two of them are parameters
	i64Local     = 4
)

// pick returns a number below n.
func (g *generator) pick(n int) int {
	if len(g.in) == 0 {
		return 0
	}
	v := int(g.in[0])
	g.in = g.in[1:]
	return v % n
}

func (g *generator) emit(b ...byte) { g.out = append(g.out, b...) }

func (g *generator) module() []byte {
	var bodies, types, exports [][]byte
	for i := range generated {
		bodies = append(bodies, g.function())
		types = append(types, []byte{0})
		exports = append(exports, exported("f"+string(rune('0'+i)), Function, byte(i)))
	}
	exports = append(exports, exported("memory", MemoryKind, 0),
		exported("budget", GlobalKind, budgetGlobal), exported("g", GlobalKind, i32Global), exported("h", GlobalKind, i64Global))
	segment := append(appendU32([]byte{1}, 70_000), make([]byte, 70_000)...)
	segment[len(segment)-1] = 9
	sections := [][]byte{
		vector(typeSection, signature(2, 1), signature(0, 0), signature(1, 2)),
		vector(functionSection, types...),
		vector(tableSection, []byte{0x70, 0, generated + 1}),
		vector(memorySection, []byte{1, 3, 5}),
		vector(globalSection, []byte{i32t, 1, opI32Const, 0, opEnd}, []byte{i32t, 1, opI32Const, 5, opEnd}, []byte{i64t, 1, opI64Const, 7, opEnd}),
		vector(exportSection, exports...),
		vector(elementSection, []byte{0, opI32Const, 0, opEnd, generated, 0, 1, 2, 3}),
		raw(dataCountSection, []byte{1}),
		vector(codeSection, bodies...),
		vector(dataSection, segment),
	}
	return build(sections...)
}

func (g *generator) function() []byte {
	g.out, g.depth, g.labels = nil, 5, 1
	g.spend()
	for range 1 + g.pick(6) {
		g.statement()
	}
	g.number()
	return functionWith([]byte{2, i32Locals - 2, i32t, 1, i64t}, g.out...)
}

// spend takes one from the budget.
func (g *generator) spend() {
	g.emit(opGlobalGet, budgetGlobal, opI32Eqz, opIf, noResult, opUnreachable, opEnd)
	g.emit(opGlobalGet, budgetGlobal, opI32Const, 1, opI32Sub, opGlobalSet, budgetGlobal)
}

// constants are numbers around which things change.
var constants = []int32{0, 1, 2, 3, -1, 7, 255, 65_535, 65_536, 65_537, 131_072, 196_607, 196_608, 262_144, -65_536, 1 << 30, -1 << 31}

// number pushes an i32.
func (g *generator) number() {
	if g.depth == 0 {
		g.emit(opLocalGet, byte(g.pick(i32Locals)))
		return
	}
	g.depth--
	defer func() { g.depth++ }()
	switch g.pick(14) {
	case 0, 1:
		g.emit(constant32(nil, constants[g.pick(len(constants))])...)
	case 2, 3:
		g.emit(opLocalGet, byte(g.pick(i32Locals)))
	case 4:
		g.emit(opGlobalGet, i32Global)
	case 5, 6:
		g.number()
		g.number()
		g.emit(byte(opI32Add + g.pick(15))) // additions to rotations, divisions too
	case 7:
		g.number()
		g.emit([]byte{opI32Eqz, 0x67, 0x68, 0x69, 0xc0, 0xc1}[g.pick(6)])
	case 8:
		g.number()
		g.emit([]byte{0x28, 0x2c, 0x2f}[g.pick(3)], 0)
		g.emit(appendU32(nil, uint32(g.pick(256)*700))...)
	case 9:
		g.wide()
		g.emit(0xa7) // i32.wrap_i64
	case 10:
		g.call()
	case 11:
		g.number()
		g.emit(opIf, i32t)
		g.inside(g.number)
		g.emit(opElse)
		g.inside(g.number)
		g.emit(opEnd)
	case 12:
		g.number()
		g.emit(opBlock, 2) // one i32 to two
		g.inside(func() { g.statement(); g.number() })
		g.emit(opEnd, opI32Add)
	case 13:
		g.emit(opMemorySize, 0)
	}
}

// wide pushes an i64.
func (g *generator) wide() {
	switch g.pick(4) {
	case 0:
		g.emit(opLocalGet, i64Local)
	case 1:
		g.emit(opGlobalGet, i64Global)
	case 2:
		g.number()
		g.emit(opI64ExtendU)
	case 3:
		g.emit(opLocalGet, i64Local, opI64Const, 3)
		g.emit([]byte{opI64Add, opI64Mul, opI64Shl}[g.pick(3)])
	}
}

func (g *generator) inside(f func()) {
	g.labels++
	f()
	g.labels--
}

func (g *generator) call() {
	g.number()
	g.number()
	if g.pick(2) == 0 {
		g.emit(opCall, byte(g.pick(generated)))
		return
	}
	g.emit(opI32Const, byte(g.pick(generated+2)), opCallIndirect, 0, 0) // the last two trap
}

// statement generates code that leaves the operand stack as it was.
func (g *generator) statement() {
	if g.depth == 0 {
		g.emit(0x01) // nop
		return
	}
	g.depth--
	defer func() { g.depth++ }()
	switch g.pick(14) {
	case 0, 1:
		g.number()
		g.emit(opLocalSet, byte(g.pick(i32Locals)))
	case 2:
		g.number()
		g.emit(opGlobalSet, i32Global)
	case 3:
		g.wide()
		g.emit([]byte{opLocalSet, i64Local, opGlobalSet, i64Global}[2*g.pick(2):][:2]...)
	case 4:
		g.number()
		g.number()
		g.emit([]byte{0x36, 0x3a, 0x3b}[g.pick(3)], 0)
		g.emit(appendU32(nil, uint32(g.pick(256)*700))...)
	case 5:
		g.bulk()
	case 6:
		g.number()
		g.emit(opIf, noResult)
		g.inside(g.statement)
		if g.pick(2) == 0 {
			g.emit(opElse)
			g.inside(g.statement)
		}
		g.emit(opEnd)
	case 7, 8:
		g.loop()
	case 9:
		g.emit(opBlock, noResult)
		g.inside(func() { g.statement(); g.branch(); g.statement() })
		g.emit(opEnd)
	case 10:
		g.call()
		g.emit(opDrop)
	case 11:
		g.number()
		g.emit(opMemoryGrow, 0, opDrop)
	case 12:
		for range 40 { // longer than a path may be
			g.emit(opLocalGet, 2, opI32Const, 3, opI32Add, opLocalSet, 2)
		}
	case 13:
		g.table()
	}
}

func (g *generator) loop() {
	g.emit(opLoop, noResult)
	g.spend()
	g.inside(func() {
		g.statement()
		g.number()
		g.emit(opBrIf, 0)
		g.statement()
	})
	g.emit(opEnd)
}

func (g *generator) bulk() {
	g.number()
	g.number()
	g.number()
	g.emit(opBulk)
	switch g.pick(3) {
	case 0:
		g.emit(bulkMemoryFill, 0)
	case 1:
		g.emit(bulkMemoryCopy, 0, 0)
	case 2:
		g.emit(bulkMemoryInit, 0, 0)
	}
}

func (g *generator) table() {
	g.number()
	switch g.pick(3) {
	case 0:
		g.emit(opRefFunc, byte(g.pick(generated)), opTableSet, 0)
	case 1:
		g.emit(opRefNull, 0x70)
		g.number()
		g.emit(opBulk, bulkTableFill, 0)
	case 2:
		g.number()
		g.number()
		g.emit(opBulk, bulkTableCopy, 0, 0)
	}
}

// branch leaves blocks of no result: the innermost one.
func (g *generator) branch() {
	switch g.pick(3) {
	case 0:
		g.emit(opBr, 0)
	case 1:
		g.number()
		g.emit(opBrIf, 0)
	case 2:
		g.number()
		g.emit(opBrTable, 2, 0, 0, 0)
	}
}
