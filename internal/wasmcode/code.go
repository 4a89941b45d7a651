package wasmcode

import (
	"fmt"
)

// maxPath is what a path may cost before it meets a check.
const maxPath = 128

// bodies rewrites the functions.
func (e *encoder) bodies() (section, error) {
	s := e.sections[codeSection]
	r := &reader{buf: s.entries}
	out := make([]byte, 0, len(s.entries)+len(s.entries)/4)
	b := &body{encoder: e}
	for i := range s.count {
		size := r.u32()
		if size > mostBody {
			r.tooLarge("a function of %d bytes, more than %d", size, mostBody)
		}
		b.reader = reader{buf: r.bytes(size)}
		b.out = b.out[:0]
		if r.err == nil {
			r.err = b.rewrite()
		}
		if r.err != nil {
			return section{}, fmt.Errorf("function %d: %w", e.importedFunctions+int(i), r.err)
		}
		out = appendU32(out, uint32(len(b.out)))
		out = append(out, b.out...)
		if len(out) > mostBytes {
			return section{}, fmt.Errorf("%w: more than %d bytes with the checks", ErrTooLarge, mostBytes)
		}
	}
	if r.pos != len(r.buf) {
		return section{}, fmt.Errorf("%w: %d bytes follow the last function", ErrMalformed, len(r.buf)-r.pos)
	}
	s.entries = out
	return s, nil
}

// body is one function that is being rewritten.
type body struct {
	*encoder
	reader
	out    []byte
	copied int // what of the function is in out
	blocks []block
	path   int // the most that a path to here has cost since its last check
}

// block is a block, a loop or an if that is open.
type block struct {
	op    byte
	start int // cost of the path to it
	exit  int // highest cost of the paths that branch to its end
}

// rewrite copies a function and inserts the checks.
func (b *body) rewrite() error {
	b.copied, b.path = 0, 0
	b.locals()
	b.insert()
	b.blocks = append(b.blocks[:0], block{op: opBlock})
	for len(b.blocks) > 0 && b.err == nil {
		if b.path >= maxPath {
			b.insert()
		}
		b.instruction()
	}
	if b.err == nil && b.pos != len(b.buf) {
		b.malformed("%d bytes follow its end", len(b.buf)-b.pos)
	}
	if b.err != nil {
		return fmt.Errorf("at byte %d: %w", b.pos, b.err)
	}
	b.flush(b.pos)
	return nil
}

func (b *body) locals() {
	all := uint32(0)
	for n := b.u32(); n > 0 && b.err == nil; n-- {
		some := b.count(mostLocals, "locals")
		b.valueType()
		all += some
		b.atMost(&b.reader, all, mostLocals, "locals")
	}
	b.allLocals += all
	b.atMost(&b.reader, b.allLocals, mostAllLocals, "locals in all functions")
}

// flush copies what has been read up to there.
func (b *body) flush(upTo int) {
	b.out = append(b.out, b.buf[b.copied:upTo]...)
	b.copied = upTo
}

// insert puts a check before what has not been read.
func (b *body) insert() {
	b.flush(b.pos)
	b.out = append(b.out, b.check...)
	b.path = 0
}

// replace puts a call in the place of the instruction that begins at start.
func (b *body) replace(start int, function uint32) {
	b.flush(start)
	b.out = one(b.out, opCall, function)
	b.copied = b.pos
}

func (b *body) instruction() {
	start := b.pos
	op := b.byte()
	switch op {
	case opBulk:
		b.bulkInstruction(start)
		return
	case opVector:
		b.vectorInstruction()
		return
	}
	i := instructions[op]
	b.path += int(i.cost)
	switch i.form {
	case plain:
		b.control(op)
	case blockForm:
		b.open(op)
	case labelForm:
		b.branch()
		if op == opBr {
			b.path = 0
		}
	case labelsForm:
		for n := b.count(mostTargets, "targets") + 1; n > 0 && b.err == nil; n-- {
			b.branch()
		}
		b.path = 0
	default:
		b.immediates(op, i.form)
	}
}

// open begins a block. After the header of a loop comes a check.
func (b *body) open(op byte) {
	b.blockType()
	if len(b.blocks) > mostOpen {
		b.tooLarge("more than %d blocks in each other", mostOpen)
	}
	b.blocks = append(b.blocks, block{op: op, start: b.path})
	if op == opLoop {
		b.insert()
	}
}

// control follows the paths over instructions without immediates.
func (b *body) control(op byte) {
	switch op {
	case opUnreachable, opReturn:
		b.path = 0 // nothing comes here
	case opElse:
		top := &b.blocks[len(b.blocks)-1]
		if top.op != opIf {
			b.malformed("else without if")
			return
		}
		top.op = opElse
		top.exit = max(top.exit, b.path)
		b.path = top.start
	case opEnd:
		top := b.blocks[len(b.blocks)-1]
		b.blocks = b.blocks[:len(b.blocks)-1]
		if top.op == opIf { // without else
			top.exit = max(top.exit, top.start)
		}
		b.path = max(b.path, top.exit)
	}
}

// branch reads a label. A branch to a loop comes to its check.
func (b *body) branch() {
	l := b.u32()
	if int64(l) >= int64(len(b.blocks)) {
		b.malformed("label %d does not exist", l)
		return
	}
	to := &b.blocks[len(b.blocks)-1-int(l)]
	to.exit = max(to.exit, b.path)
	if to.op == opLoop {
		to.exit = 0
	}
}

func (b *body) blockType() {
	if !b.more() || b.buf[b.pos] < 0x40 || b.buf[b.pos] >= 0x80 {
		if t := b.signed(33); b.err == nil && (t < 0 || t >= int64(b.types)) {
			b.malformed("type %d does not exist", t)
		}
		return
	}
	if b.buf[b.pos] == noResult {
		b.pos++
		return
	}
	b.valueType()
}

// needMemory checks that there is a memory of the module's own.
func (b *body) needMemory() {
	if b.memory == nil {
		b.malformed("there is no memory")
	}
}
