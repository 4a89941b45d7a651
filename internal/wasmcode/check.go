package wasmcode

// one appends an instruction with one number.
func one(b []byte, op byte, number uint32) []byte { return appendU32(append(b, op), number) }

// constant32 appends i32.const.
func constant32(b []byte, v int32) []byte { return appendS32(append(b, opI32Const), v) }

const noResult = 0x40 // the block type of nothing to nothing

// checkCode returns what is inserted: count down, and pause at 0.
func (e *encoder) checkCode() []byte {
	b := one(nil, opGlobalGet, e.countdown)
	b = append(constant32(b, 1), opI32Sub)
	b = one(b, opGlobalSet, e.countdown)
	b = one(b, opGlobalGet, e.countdown)
	b = append(b, opI32Eqz, opIf, noResult)
	b = one(b, opCall, e.pause)
	return append(b, opEnd)
}

// pauseBody returns the function that pauses. To grow the memory by nothing is the way
// through the host that every module has; TestCollection fails if wazero no longer goes
// there. The flag is read after that.
func (e *encoder) pauseBody() []byte {
	b := []byte{0} // no locals
	b = constant32(b, Period)
	b = one(b, opGlobalSet, e.countdown)

	b = one(b, opGlobalGet, e.ticks)
	b = append(b, opI64Const, 1, opI64Add)
	b = one(b, opGlobalSet, e.ticks)

	b = constant32(b, 0)
	b = append(b, opMemoryGrow, 0, opDrop)

	b = one(b, opGlobalGet, e.flag)
	return append(b, opIf, noResult, opUnreachable, opEnd, opEnd)
}

const (
	pieceBits  = 16 // a piece is 64 KiB: about 5 us
	chargeBits = 8  // 256 bytes cost as much as a check
)

// bulkFunction returns the index of the function that does memory.copy, memory.fill or
// memory.init in pieces.
func (e *encoder) bulkFunction(op byte, segment uint32) uint32 {
	key := bulkOperation{op, segment}
	f, ok := e.bulk[key]
	if !ok {
		f = e.pause + uint32(len(e.added))
		e.bulk[key] = f
		name := map[byte]string{bulkMemoryCopy: "memory.copy", bulkMemoryFill: "memory.fill", bulkMemoryInit: "memory.init"}[op]
		e.added = append(e.added, function{Reserved + name, 1, e.bulkBody(key)})
	}
	return f
}

// The parameters of memory.copy, memory.fill and memory.init.
const (
	target = iota
	source // of memory.fill: the value
	length
)

// bulkBody returns a function that does the same as op, in pieces:
//
//	if length > piece && everything is within bounds {
//		for ; length > piece; length -= piece {
//			charge; op(target, source, piece); target += piece; source += piece
//		}
//	}
//	charge; op(target, source, length)
//
// What is out of bounds is left to the last line, which traps before it writes anything.
// A copy to a higher address goes from the end, as the ranges may overlap.
func (e *encoder) bulkBody(o bulkOperation) []byte {
	const piece = 1 << pieceBits
	b := []byte{0} // no locals
	b = append(b, opBlock, noResult)
	b = constant32(one(b, opLocalGet, length), piece)
	b = append(b, opI32LeU, opBrIf, 0)
	b = outside(b, target, func(b []byte) []byte { return memoryEnd(b) })
	switch o.op {
	case bulkMemoryCopy:
		b = outside(b, source, func(b []byte) []byte { return memoryEnd(b) })
	case bulkMemoryInit:
		size := int64(e.segments[o.segment])
		b = outside(b, source, func(b []byte) []byte { return appendS64(append(b, opI64Const), size) })
	}
	if o.op == bulkMemoryCopy {
		b = one(one(b, opLocalGet, target), opLocalGet, source)
		b = append(b, opI32GtU, opIf, noResult)
		b = e.downward(b, o, piece)
		b = append(b, opElse)
		b = e.upward(b, o, piece)
		b = append(b, opEnd)
	} else {
		b = e.upward(b, o, piece)
	}
	b = append(b, opEnd)
	b = e.charge(b)
	b = one(one(one(b, opLocalGet, target), opLocalGet, source), opLocalGet, length)
	return append(o.append(b), opEnd)
}

// outside leaves the block if start+length is beyond an end.
func outside(b []byte, start uint32, end func([]byte) []byte) []byte {
	b = append(one(b, opLocalGet, start), opI64ExtendU)
	b = append(one(b, opLocalGet, length), opI64ExtendU, opI64Add)
	return append(end(b), opI64GtU, opBrIf, 0)
}

func memoryEnd(b []byte) []byte {
	return append(b, opMemorySize, 0, opI64ExtendU, opI64Const, 16, opI64Shl)
}

func (e *encoder) upward(b []byte, o bulkOperation, piece int32) []byte {
	b = append(b, opLoop, noResult)
	b = e.chargePiece(b)
	b = constant32(one(one(b, opLocalGet, target), opLocalGet, source), piece)
	b = o.append(b)
	b = advance(b, target, opI32Add, piece)
	if o.op != bulkMemoryFill {
		b = advance(b, source, opI32Add, piece)
	}
	b = advance(b, length, opI32Sub, piece)
	b = constant32(one(b, opLocalGet, length), piece)
	return append(b, opI32GtU, opBrIf, 0, opEnd)
}

func (e *encoder) downward(b []byte, o bulkOperation, piece int32) []byte {
	b = append(b, opLoop, noResult)
	b = e.chargePiece(b)
	b = advance(b, length, opI32Sub, piece)
	for _, start := range []uint32{target, source} {
		b = append(one(one(b, opLocalGet, start), opLocalGet, length), opI32Add)
	}
	b = o.append(constant32(b, piece))
	b = constant32(one(b, opLocalGet, length), piece)
	return append(b, opI32GtU, opBrIf, 0, opEnd)
}

func advance(b []byte, local uint32, op byte, by int32) []byte {
	b = append(constant32(one(b, opLocalGet, local), by), op)
	return one(b, opLocalSet, local)
}

// append appends the instruction itself.
func (o bulkOperation) append(b []byte) []byte {
	b = append(b, opBulk, o.op)
	switch o.op {
	case bulkMemoryCopy:
		return append(b, 0, 0)
	case bulkMemoryInit:
		return append(appendU32(b, o.segment), 0)
	}
	return append(b, 0)
}

// charge counts down by the length, and one.
func (e *encoder) charge(b []byte) []byte {
	b = one(b, opGlobalGet, e.countdown)
	b = constant32(one(b, opLocalGet, length), chargeBits)
	return e.countDown(append(b, opI32ShrU, opI32Sub))
}

func (e *encoder) chargePiece(b []byte) []byte {
	b = one(b, opGlobalGet, e.countdown)
	return e.countDown(append(constant32(b, 1<<(pieceBits-chargeBits)), opI32Sub))
}

func (e *encoder) countDown(b []byte) []byte {
	b = append(constant32(b, 1), opI32Sub)
	b = one(b, opGlobalSet, e.countdown)
	b = constant32(one(b, opGlobalGet, e.countdown), 0)
	b = append(b, opI32LeS, opIf, noResult)
	return append(one(b, opCall, e.pause), opEnd)
}
