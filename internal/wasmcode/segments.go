package wasmcode

// valueType reads a type of values.
func (r *reader) valueType() byte {
	t := r.byte()
	switch t {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x7b: // i32, i64, f32, f64, v128
	default:
		return r.checkReference(t)
	}
	return t
}

// checkReference checks that t is funcref or externref.
func (r *reader) checkReference(t byte) byte {
	switch {
	case t == 0x70 || t == 0x6f:
	case t == 0x69 || t == 0x74:
		r.unsupported("exceptions")
	case t == 0x63 || t == 0x64:
		r.unsupported("typed function references")
	case t >= 0x6a && t <= 0x73 || t == 0x77 || t == 0x78:
		r.unsupported("garbage-collected types")
	case t == 0x68 || t == 0x75:
		r.unsupported("stack switching")
	default:
		r.malformed("value type %#x is not known", t)
	}
	return t
}

// flag reads whether a global is mutable.
func (r *reader) flag() bool {
	b := r.byte()
	if b&2 != 0 && b < 4 {
		r.unsupported("threads")
	} else if b > 1 {
		r.malformed("mutability %#x is not known", b)
	}
	return b == 1
}

// limits reads a smallest and perhaps a largest size.
func (r *reader) limits() (low, high uint32, bounded bool) {
	f := r.byte()
	switch {
	case f > 0x0f:
		r.malformed("limits %#x are not known", f)
	case f&2 != 0:
		r.unsupported("threads")
	case f&4 != 0:
		r.unsupported("memories of 64 bits")
	case f&8 != 0:
		r.unsupported("custom page sizes")
	}
	low = r.u32()
	if f&1 != 0 {
		return low, r.u32(), true
	}
	return low, 0, false
}

// table reads the type of a table.
func (r *reader) table() (t byte, low, high uint32, bounded bool) {
	t = r.byte()
	if t == 0x40 {
		r.unsupported("typed function references")
	}
	r.checkReference(t)
	low, high, bounded = r.limits()
	if bounded && low > high {
		r.malformed("a table of %d to %d entries", low, high)
	}
	return t, low, high, bounded
}

func (d *decoder) tableEntries(r *reader, n uint32) {
	d.atMost(r, n, mostTables, "tables")
	for ; n > 0 && r.err == nil; n-- {
		_, low, _, _ := r.table()
		if low > mostEntries-d.minEntries {
			r.tooLarge("tables of more than %d entries", mostEntries)
			return
		}
		d.minEntries += low
		d.tables++
	}
}

// boundTables writes the tables anew, such that together they cannot grow beyond mostEntries,
// or twice that where they begin with more than their share: a guest has this memory
// besides its own. That the growth of a table fails is always allowed.
func (d *decoder) boundTables() section {
	s := d.sections[tableSection]
	if s.count == 0 {
		return s
	}
	r := &reader{buf: s.entries}
	var b []byte
	for range s.count {
		t, low, high, bounded := r.table()
		share := max(low, mostEntries/s.count)
		if !bounded || high > share {
			high = share
		}
		b = appendU32(appendU32(append(b, t, 1), low), high)
	}
	return section{s.count, b}
}

// constant reads an expression that initializes a global or a segment. It may name the
// first so many globals.
func (d *decoder) constant(r *reader, globals int) {
	for r.err == nil {
		switch op := r.byte(); op {
		case opI32Const:
			r.signed(32)
		case opI64Const:
			r.signed(64)
		case opF32Const:
			r.bytes(4)
		case opF64Const:
			r.bytes(8)
		case opGlobalGet:
			r.index(globals, "global")
		case opRefNull:
			r.checkReference(r.byte())
		case opRefFunc:
			r.index(d.functions, "function")
		case opVector:
			if r.byte() != vectorConst {
				r.malformed("an expression is not constant")
			}
			r.bytes(16)
		case opI32Add, opI32Sub, opI32Sub + 1, opI64Add, opI64Add + 1, opI64Mul:
			r.unsupported("extended constant expressions")
		case opEnd:
			return
		default:
			if p := proposal(op); p != "" {
				r.unsupported(p)
			}
			r.malformed("an expression is not constant")
		}
	}
}

func (d *decoder) elementEntries(r *reader, n uint32) {
	d.atMost(r, n, mostData, "element segments")
	for ; n > 0 && r.err == nil; n-- {
		f := r.u32()
		if f > 7 {
			r.malformed("an element segment of kind %d", f)
			return
		}
		passive, explicit, expressions := f&1 != 0, f&2 != 0, f&4 != 0
		if !passive {
			table := uint32(0)
			if explicit {
				table = r.u32()
			}
			if int64(table) >= int64(d.tables) {
				r.malformed("table %d does not exist", table)
				return
			}
			d.constant(r, d.globals)
		}
		if passive || explicit {
			t := r.byte()
			if expressions {
				r.checkReference(t)
			} else if t != 0 {
				r.malformed("elements of kind %d", t)
			}
		}
		entries := r.u32()
		d.entries += min(entries, mostElements+1)
		d.atMost(r, d.entries, mostElements, "elements")
		for ; entries > 0 && r.err == nil; entries-- {
			if expressions {
				d.constant(r, d.globals)
			} else {
				r.index(d.functions, "function")
			}
		}
		d.elements++
	}
}

func (d *decoder) dataEntries(r *reader, n uint32) {
	d.atMost(r, n, mostData, "data segments")
	for ; n > 0 && r.err == nil; n-- {
		switch f := r.u32(); f {
		case 0, 2:
			if f == 2 {
				if r.u32() != 0 {
					r.unsupported("multiple memories")
				}
			}
			if d.memory == nil {
				r.malformed("there is no memory")
			}
			d.constant(r, d.globals)
		case 1:
		default:
			r.malformed("a data segment of kind %d", f)
		}
		d.segments = append(d.segments, uint32(len(r.bytes(r.u32()))))
	}
}
