package wasmcode

import "fmt"

// encoder writes the module anew.
type encoder struct {
	*decoder
	flag, ticks, countdown uint32 // indices of the added globals
	pause                  uint32 // index of the function that pauses
	bulk                   map[bulkOperation]uint32
	added                  []function // from index pause on
	check                  []byte
}

// function is one that is added.
type function struct {
	name string
	kind uint32 // 0: nothing to nothing, 1: three i32 to nothing
	body []byte
}

// bulkOperation is a function that does an instruction in pieces.
type bulkOperation struct {
	op      byte
	segment uint32
}

func (d *decoder) encode() ([]byte, error) {
	e := &encoder{
		decoder: d,
		flag:    uint32(d.globals), ticks: uint32(d.globals) + 1, countdown: uint32(d.globals) + 2,
		pause: uint32(d.functions),
		bulk:  map[bulkOperation]uint32{},
	}
	e.added = append(e.added, function{Reserved + "pause", 0, e.pauseBody()})
	e.check = e.checkCode()
	code, err := e.bodies()
	if err != nil {
		return nil, err
	}
	if d.start != nil {
		body := appendU32([]byte{0, opCall}, *d.start) // no locals
		e.added = append(e.added, function{startName, 0, append(body, opEnd)})
	}
	for _, f := range e.added {
		code.entries = appendU32(code.entries, uint32(len(f.body)))
		code.entries = append(code.entries, f.body...)
		code.count++
	}
	out := e.module(code)
	if len(out) > mostBytes {
		return nil, fmt.Errorf("%w: %d bytes with the checks, more than %d", ErrTooLarge, len(out), mostBytes)
	}
	return out, nil
}

// module puts the sections together.
func (e *encoder) module(code section) []byte {
	out := make([]byte, 0, len(code.entries)+len(e.sections[dataSection].entries)+1<<16)
	out = append(out, "\x00asm\x01\x00\x00\x00"...)
	for _, place := range sectionOrder {
		s := e.sections[place.id]
		present := e.present[place.id]
		switch place.id {
		case typeSection:
			s = e.addTypes(s)
		case functionSection:
			s = e.addFunctions(s)
		case tableSection:
			s = e.boundTables()
		case memorySection:
			if e.memory == nil {
				s = section{1, []byte{1, 0, 0}}
			}
		case globalSection:
			s = e.addGlobals(s)
		case exportSection:
			s = e.addExports(s)
		case startSection:
			continue
		case codeSection:
			s = code
		}
		if present || s.count > 0 {
			count := appendU32(nil, s.count)
			out = appendU32(append(out, byte(place.id)), uint32(len(count)+len(s.entries)))
			out = append(append(out, count...), s.entries...)
		}
	}
	names := make([]string, len(e.added))
	for i, f := range e.added {
		names[i] = f.name
	}
	custom := e.nameSection(e.functions, names)
	out = appendU32(append(out, customSection), uint32(len(custom)))
	return append(out, custom...)
}

// add returns a section with n more entries.
func (s section) add(n int, entries []byte) section {
	all := make([]byte, 0, len(s.entries)+len(entries))
	all = append(append(all, s.entries...), entries...)
	return section{s.count + uint32(n), all}
}

func (e *encoder) addTypes(s section) section {
	return s.add(2, []byte{0x60, 0, 0, 0x60, 3, 0x7f, 0x7f, 0x7f, 0})
}

func (e *encoder) addFunctions(s section) section {
	var b []byte
	for _, f := range e.added {
		b = appendU32(b, uint32(e.types)+f.kind)
	}
	return s.add(len(e.added), b)
}

func (e *encoder) addGlobals(s section) section {
	var b []byte
	b = append(b, 0x7f, 1, opI32Const, 0, opEnd)                         // the flag
	b = append(b, 0x7e, 1, opI64Const, 0, opEnd)                         // the ticks
	b = append(appendS32(append(b, 0x7f, 1, opI32Const), Period), opEnd) // the countdown
	return s.add(3, b)
}

func (e *encoder) addExports(s section) section {
	n := 0
	var b []byte
	export := func(name string, kind Kind, index uint32) {
		b = appendU32(append(appendName(b, name), byte(kind)), index)
		n++
	}
	export(flagName, GlobalKind, e.flag)
	export(ticksName, GlobalKind, e.ticks)
	if e.start != nil {
		export(startName, Function, uint32(e.functions+len(e.added)-1))
	}
	if e.restorable() {
		for _, g := range e.own {
			export(ownName(g), GlobalKind, g)
		}
	}
	return s.add(n, b)
}
