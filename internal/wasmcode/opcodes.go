package wasmcode

// The opcodes that this package treats, or writes, by name.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32Eqz       = 0x45
	opI32LeS       = 0x4c
	opI32LeU       = 0x4d
	opI32GtU       = 0x4b
	opI64GtU       = 0x56
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI32ShrU      = 0x76
	opI64Add       = 0x7c
	opI64Mul       = 0x7e
	opI64Shl       = 0x86
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefFunc      = 0xd2
	opBulk         = 0xfc
	opVector       = 0xfd

	bulkMemoryInit = 8
	bulkDataDrop   = 9
	bulkMemoryCopy = 10
	bulkMemoryFill = 11
	bulkTableInit  = 12
	bulkTableCopy  = 14
	bulkTableGrow  = 15
	bulkTableFill  = 17

	vectorConst = 12
)

// form is what follows an opcode.
type form byte

const (
	unknown       form = iota // no such instruction
	plain                     // nothing
	blockForm                 // a block type
	labelForm                 // a label
	labelsForm                // a vector of labels, and one more
	callForm                  // a function
	indirectForm              // a type and a table
	typesForm                 // a vector of one value type
	localForm                 // a local
	globalForm                // a global
	tableForm                 // a table
	accessForm                // alignment and offset, in memory
	laneForm                  // alignment, offset and a lane
	byteForm                  // a lane
	sizeForm                  // the number of the memory
	i32Form                   // a signed number of 32 bits
	i64Form                   // a signed number of 64 bits
	bytes4Form                // four bytes
	bytes8Form                // eight bytes
	bytes16Form               // sixteen bytes
	heapForm                  // the type of a reference
	functionForm              // a function that is not called
	initForm                  // a data segment and the number of the memory
	dataForm                  // a data segment
	copyForm                  // twice the number of the memory
	tableInitForm             // an element segment and a table
	elementForm               // an element segment
	tableCopyForm             // two tables
)

// instruction says how an instruction is read and what it costs.
type instruction struct {
	form form
	// cost is about how long the instruction takes in the worst case, in simple
	// instructions. A path may cost maxPath before it meets a check.
	cost uint8
}

const (
	simple   = 1
	slow     = 4  // a memory access that misses the caches, a division
	aCall    = 16 // what the callee does after its last check
	hostCall = 64 // an imported function, the growing of a memory
)

var (
	instructions = instructionTable()
	bulkForms    = bulkTable()
	vectorForms  = vectorTable()
)

// span gives the instructions from first to last one form and cost.
func span(table []instruction, first, last int, f form, cost uint8) {
	for i := first; i <= last; i++ {
		table[i] = instruction{f, cost}
	}
}

func instructionTable() (table [256]instruction) {
	t := table[:]
	span(t, 0x00, 0x01, plain, 0) // unreachable, nop
	span(t, 0x02, 0x04, blockForm, simple)
	span(t, 0x05, 0x05, plain, 0) // else
	span(t, 0x0b, 0x0b, plain, 0) // end
	span(t, 0x0c, 0x0d, labelForm, simple)
	span(t, 0x0e, 0x0e, labelsForm, slow)
	span(t, 0x0f, 0x0f, plain, simple)
	span(t, 0x10, 0x10, callForm, aCall)
	span(t, 0x11, 0x11, indirectForm, aCall)
	span(t, 0x1a, 0x1b, plain, simple) // drop, select
	span(t, 0x1c, 0x1c, typesForm, simple)
	span(t, 0x20, 0x22, localForm, simple)
	span(t, 0x23, 0x24, globalForm, simple)
	span(t, 0x25, 0x26, tableForm, slow)
	span(t, 0x28, 0x3e, accessForm, slow)
	span(t, 0x3f, 0x3f, sizeForm, simple)
	span(t, 0x40, 0x40, sizeForm, hostCall)
	span(t, 0x41, 0x41, i32Form, simple)
	span(t, 0x42, 0x42, i64Form, simple)
	span(t, 0x43, 0x43, bytes4Form, simple)
	span(t, 0x44, 0x44, bytes8Form, simple)
	span(t, 0x45, 0xc4, plain, simple) // comparisons, arithmetic, conversions, sign extensions
	span(t, 0x6d, 0x70, plain, slow)   // i32 division
	span(t, 0x7f, 0x82, plain, slow)   // i64 division
	span(t, 0xd0, 0xd0, heapForm, simple)
	span(t, 0xd1, 0xd1, plain, simple)
	span(t, 0xd2, 0xd2, functionForm, slow)
	return table
}

func bulkTable() (table [18]instruction) {
	t := table[:]
	span(t, 0, 7, plain, simple) // saturating truncation
	span(t, 8, 8, initForm, aCall)
	span(t, 9, 9, dataForm, slow)
	span(t, 10, 10, copyForm, aCall)
	span(t, 11, 11, sizeForm, aCall)
	span(t, 12, 12, tableInitForm, hostCall)
	span(t, 13, 13, elementForm, slow)
	span(t, 14, 14, tableCopyForm, hostCall)
	span(t, 15, 15, tableForm, hostCall)
	span(t, 16, 16, tableForm, simple)
	span(t, 17, 17, tableForm, hostCall)
	return table
}

// vectorTable has the instructions of the SIMD proposal. Those that it left out, and that
// others have taken, stay unknown.
func vectorTable() (table [256]instruction) {
	t := table[:]
	span(t, 0x0e, 0xff, plain, simple)
	for _, gap := range []int{
		0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb, 0xc2, 0xc5, 0xc6,
		0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee,
	} {
		t[gap] = instruction{}
	}
	span(t, 0x00, 0x0b, accessForm, slow) // loads and the store
	span(t, 0x0c, 0x0d, bytes16Form, simple)
	span(t, 0x15, 0x22, byteForm, simple) // extract_lane and replace_lane
	span(t, 0x54, 0x5b, laneForm, slow)
	span(t, 0x5c, 0x5d, accessForm, slow)
	return table
}

// proposal names the feature that an unknown opcode belongs to, or is empty.
func proposal(op byte) string {
	switch {
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exceptions"
	case op == 0x12, op == 0x13:
		return "tail calls"
	case op == 0x14, op == 0x15, op >= 0xd4 && op <= 0xd6:
		return "typed function references"
	case op == 0xd3, op == 0xfb:
		return "garbage-collected types"
	case op >= 0xe0 && op <= 0xe6:
		return "stack switching"
	case op == 0xfe:
		return "threads"
	}
	return ""
}
