package wasmcode

// custom keeps the function names of a custom section, which must have a name of its own.
// Whatever else it has, and names that are damaged, are dropped: they have no meaning for
// the module.
func (d *decoder) custom(content []byte) error {
	r := &reader{buf: content}
	if name := r.name(); r.err != nil || name != "name" {
		return r.err
	}
	for r.more() {
		id := r.byte()
		sub := &reader{buf: r.bytes(r.u32())}
		if id == 1 && r.err == nil {
			d.functionNames(sub)
			break
		}
	}
	return nil
}

func (d *decoder) functionNames(r *reader) {
	names := section{count: r.u32()}
	names.entries = r.buf[min(r.pos, len(r.buf)):]
	last := int64(-1)
	for n := names.count; n > 0 && r.err == nil; n-- {
		f := int64(r.u32())
		if f <= last {
			return
		}
		last = f
		r.name()
	}
	if r.err == nil && r.pos == len(r.buf) {
		d.names, d.lastNamed = names, last
	}
}

// nameSection returns a custom section with the names of the module's functions and of the
// added ones, which follow each other from first.
func (d *decoder) nameSection(first int, added []string) []byte {
	names := d.names
	if d.lastNamed >= int64(d.functions) {
		names = section{}
	}
	names.count += uint32(len(added))
	list := appendU32(nil, names.count)
	list = append(list, names.entries...)
	for i, name := range added {
		list = appendName(appendU32(list, uint32(first+i)), name)
	}
	b := appendName(nil, "name")
	b = appendU32(append(b, 1), uint32(len(list)))
	return append(b, list...)
}
