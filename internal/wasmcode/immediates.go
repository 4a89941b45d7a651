package wasmcode

// immediates reads what follows the opcode of an instruction.
func (b *body) immediates(op byte, f form) {
	switch f {
	case callForm:
		if int(b.index(b.functions, "function")) < b.importedFunctions {
			b.path += hostCall - aCall
		}
	case functionForm:
		b.index(b.functions, "function")
	case indirectForm:
		b.index(b.types, "type")
		b.index(b.tables, "table")
	case typesForm:
		if b.u32() != 1 {
			b.malformed("select with several types")
		}
		b.valueType()
	case localForm:
		b.u32()
	case globalForm:
		b.index(b.globals, "global")
	case tableForm:
		b.index(b.tables, "table")
		if op == opTableSet {
			b.fixed = true
		}
	case accessForm:
		b.access()
	case laneForm:
		b.access()
		b.byte()
	case byteForm:
		b.byte()
	case sizeForm:
		b.needMemory()
		b.zero()
	case i32Form:
		b.signed(32)
	case i64Form:
		b.signed(64)
	case bytes4Form:
		b.bytes(4)
	case bytes8Form:
		b.bytes(8)
	case bytes16Form:
		b.bytes(16)
	case heapForm:
		b.checkReference(b.byte())
	default:
		b.notKnown(op)
	}
}

func (b *body) notKnown(op byte) {
	if p := proposal(op); p != "" && b.err == nil {
		b.unsupported(p)
	}
	b.malformed("instruction %#x is not known", op)
}

// access reads the alignment and the offset of a memory access.
func (b *body) access() {
	b.needMemory()
	if align := b.u32(); align >= 64 && align < 128 {
		b.unsupported("multiple memories")
	}
	b.u32()
}

// vectorInstruction reads an instruction with the prefix of vectors. Its number must have
// the shortest form, as wazero reads one byte of it and takes the second one, which is
// always 1, for a nop.
func (b *body) vectorInstruction() {
	op := b.byte()
	if op >= 0x80 {
		switch high := b.byte(); {
		case high == 2:
			b.unsupported("relaxed vector instructions")
		case high != 1:
			b.malformed("a vector instruction is not known")
		}
	}
	i := vectorForms[op]
	b.path += int(i.cost)
	if i.form == plain {
		return
	}
	b.immediates(opVector, i.form)
}

// bulkInstruction reads an instruction with the prefix of bulk operations, which begins at
// start, and replaces those on memory.
func (b *body) bulkInstruction(start int) {
	number := b.u32()
	if number >= uint32(len(bulkForms)) {
		if number >= 0x13 && number <= 0x16 {
			b.unsupported("wide arithmetic")
		}
		b.malformed("instruction %#x %#x is not known", opBulk, number)
		return
	}
	op := byte(number)
	i := bulkForms[op]
	b.path += int(i.cost)
	switch i.form {
	case plain:
	case initForm:
		segment := b.segment()
		b.needMemory()
		b.zero()
		b.pieces(start, op, segment)
	case dataForm:
		b.segment()
		b.fixed = true
	case copyForm:
		b.needMemory()
		b.zero()
		b.zero()
		b.pieces(start, op, 0)
	case sizeForm:
		b.needMemory()
		b.zero()
		b.pieces(start, op, 0)
	case tableInitForm:
		b.index(b.elements, "element segment")
		b.index(b.tables, "table")
	case elementForm:
		b.index(b.elements, "element segment")
	case tableCopyForm:
		b.index(b.tables, "table")
		b.index(b.tables, "table")
	default: // the size, the growth and the filling of a table
		b.index(b.tables, "table")
	}
	switch op {
	case bulkTableInit, bulkTableCopy, bulkTableGrow, bulkTableFill:
		b.fixed = true
		b.pauseBefore(start)
	}
}

// segment reads the index of a data segment. A module that uses one must say before its
// code how many there are.
func (b *body) segment() uint32 {
	s := b.index(len(b.segments), "data segment")
	if !b.present[dataCountSection] {
		b.malformed("there is no data count section")
	}
	return s
}

func (b *body) pieces(start int, op byte, segment uint32) {
	if b.err == nil {
		b.replace(start, b.bulkFunction(op, segment))
	}
}

// pauseBefore pauses before the instruction that begins at start: one on a whole table.
func (b *body) pauseBefore(start int) {
	b.flush(start)
	b.out = one(b.out, opCall, b.pause)
	b.path = 0
}
