package wasmcode

import (
	"fmt"
	"strings"
)

// Bounds of what a module may have. The first group is what browsers allow too
// (https://webassembly.github.io/spec/js-api/#limits); those above it are lower where a compiler
// allocates far more than the module's bytes for it.
const (
	mostBytes    = 64 << 20 // of a module, before and after
	mostTypes    = 100_000
	mostImports  = 100_000
	mostExports  = 100_000
	mostGlobals  = 100_000
	mostData     = 100_000 // segments, and as many element segments
	mostParams   = 1000
	mostBody     = 7_654_321 // bytes of a function
	mostLocals   = 50_000    // of a function
	mostTargets  = 65_520    // of a br_table
	mostElements = 1_000_000 // entries of all element segments

	mostFunctions = 500_000
	mostOpen      = 5000 // blocks in each other: wazero's time grows by the square, 10,000 loops take 4 s
	mostAllLocals = 1 << 24
	mostTables    = 100
	mostEntries   = 1 << 19 // of all tables: 4 MiB, so that no operation on them takes long
	mostPages     = 1 << 16
	mostOwn       = 64 // mutable globals of a restorable module
)

const (
	customSection = iota
	typeSection
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
	dataCountSection
	tagSection
)

// sectionOrder has the sections as they follow each other, and their names.
var sectionOrder = []struct {
	id   int
	name string
}{
	{typeSection, "type"}, {importSection, "import"}, {functionSection, "function"},
	{tableSection, "table"}, {memorySection, "memory"}, {globalSection, "global"},
	{exportSection, "export"}, {startSection, "start"}, {elementSection, "element"},
	{dataCountSection, "data count"}, {codeSection, "code"}, {dataSection, "data"},
}

// section is the content of a section: how many entries it has, and these.
type section struct {
	count   uint32
	entries []byte
}

// decoder is a module in parts.
type decoder struct {
	sections [tagSection]section
	present  [tagSection]bool

	imports []Import
	exports []Export
	memory  *Memory
	start   *uint32

	types, functions, tables, globals int // with those that are imported
	importedFunctions                 int
	elements                          int
	segments                          []uint32 // lengths of the data segments
	entries                           uint32   // in element segments
	minEntries                        uint32   // of tables

	own       []uint32 // indices of the module's own mutable globals
	fixed     bool     // there is state that cannot be restored
	names     section  // of functions
	lastNamed int64    // the highest function with a name
	allLocals uint32
}

// decode reads everything but the code.
func (d *decoder) decode(code []byte) error {
	if err := preamble(code); err != nil {
		return err
	}
	r := &reader{buf: code, pos: 8}
	last := -1
	for r.more() {
		id := int(r.byte())
		content := r.bytes(r.u32())
		if r.err != nil {
			break
		}
		if id == customSection {
			if err := d.custom(content); err != nil {
				return fmt.Errorf("custom section: %w", err)
			}
			continue
		}
		place := sectionPlace(id)
		if place < 0 {
			if id == tagSection {
				return &UnsupportedError{"exceptions"}
			}
			return fmt.Errorf("%w: section %d is not known", ErrMalformed, id)
		}
		name := sectionOrder[place].name
		if place <= last {
			return fmt.Errorf("%w: the %s section is not in its place", ErrMalformed, name)
		}
		last = place
		if err := d.section(id, content); err != nil {
			return fmt.Errorf("%s section: %w", name, err)
		}
	}
	if r.err != nil {
		return r.err
	}
	return d.agree()
}

func preamble(code []byte) error {
	if len(code) < 8 || string(code[:4]) != "\x00asm" {
		return ErrNotModule
	}
	switch string(code[4:8]) {
	case "\x01\x00\x00\x00":
	case "\x0d\x00\x01\x00":
		return ErrComponent
	default:
		if code[6] != 0 { // the layer
			return ErrComponent
		}
		return fmt.Errorf("%w: version %d", ErrNotModule, code[4])
	}
	if len(code) > mostBytes {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, len(code), mostBytes)
	}
	return nil
}

func sectionPlace(id int) int {
	for i, s := range sectionOrder {
		if s.id == id {
			return i
		}
	}
	return -1
}

// section reads one section that is not custom.
func (d *decoder) section(id int, content []byte) error {
	r := &reader{buf: content}
	s := &d.sections[id]
	d.present[id] = true
	if id != startSection {
		s.count = r.u32()
		s.entries = content[r.pos:]
	}
	switch id {
	case typeSection:
		d.typeEntries(r, s.count)
	case importSection:
		d.importEntries(r, s.count)
	case functionSection:
		d.functionEntries(r, s.count)
	case tableSection:
		d.tableEntries(r, s.count)
	case memorySection:
		d.memoryEntries(r, s.count)
	case globalSection:
		d.globalEntries(r, s.count)
	case exportSection:
		d.exportEntries(r, s.count)
	case startSection:
		f := r.index(d.functions, "function")
		d.start = &f
	case elementSection:
		d.elementEntries(r, s.count)
	case codeSection:
		return r.err // encode reads the rest
	case dataSection:
		d.dataEntries(r, s.count)
	}
	if r.err == nil && r.pos != len(content) {
		r.malformed("%d bytes follow its last entry", len(content)-r.pos)
	}
	return r.err
}

// agree checks what several sections say together.
func (d *decoder) agree() error {
	if have, want := d.sections[codeSection].count, d.sections[functionSection].count; have != want {
		return fmt.Errorf("%w: %d functions have %d bodies", ErrMalformed, want, have)
	}
	if n := d.sections[dataCountSection].count; d.present[dataCountSection] && int64(n) != int64(len(d.segments)) {
		return fmt.Errorf("%w: %d data segments, not %d", ErrMalformed, len(d.segments), n)
	}
	return nil
}

func (d *decoder) typeEntries(r *reader, n uint32) {
	d.atMost(r, n, mostTypes, "types")
	for ; n > 0 && r.err == nil; n-- {
		switch form := r.byte(); form {
		case 0x60:
			for range 2 {
				for types := r.count(mostParams, "parameters or results"); types > 0 && r.err == nil; types-- {
					r.valueType()
				}
			}
			d.types++
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.unsupported("garbage-collected types")
		default:
			r.malformed("type %#x is not known", form)
		}
	}
}

func (d *decoder) atMost(r *reader, n, most uint32, what string) {
	if n > most {
		r.tooLarge("%d %s, more than %d", n, what, most)
	}
}

func (d *decoder) importEntries(r *reader, n uint32) {
	d.atMost(r, n, mostImports, "imports")
	for ; n > 0 && r.err == nil; n-- {
		i := Import{Module: r.name(), Name: r.name(), Kind: Kind(r.byte())}
		switch i.Kind {
		case Function:
			r.index(d.types, "type")
			d.functions++
			d.importedFunctions++
		case TableKind:
			r.table()
			d.tables++
			d.fixed = true
		case MemoryKind:
			d.addMemory(r, true)
			d.fixed = true
		case GlobalKind:
			r.valueType()
			if r.flag() {
				d.fixed = true
			}
			d.globals++
		case 4:
			r.unsupported("exceptions")
		default:
			r.malformed("%s is not known", i.Kind)
		}
		d.imports = append(d.imports, i)
	}
}

func (d *decoder) functionEntries(r *reader, n uint32) {
	d.atMost(r, n, mostFunctions, "functions")
	for ; n > 0 && r.err == nil; n-- {
		r.index(d.types, "type")
		d.functions++
	}
}

func (d *decoder) memoryEntries(r *reader, n uint32) {
	for ; n > 0 && r.err == nil; n-- {
		d.addMemory(r, false)
	}
}

func (d *decoder) addMemory(r *reader, imported bool) {
	low, high, bounded := r.limits()
	if !bounded {
		high = mostPages
	}
	if low > high || high > mostPages {
		r.malformed("a memory of %d to %d pages", low, high)
	}
	if d.memory != nil {
		r.unsupported("multiple memories")
	}
	d.memory = &Memory{Min: low, Max: high, Imported: imported}
}

func (d *decoder) globalEntries(r *reader, n uint32) {
	d.atMost(r, n, mostGlobals, "globals")
	before := d.globals // a global's value may use those before the section only
	for ; n > 0 && r.err == nil; n-- {
		t := r.valueType()
		if r.flag() {
			d.own = append(d.own, uint32(d.globals))
			if t < 0x7c { // a vector or a reference does not fit into 64 bits
				d.fixed = true
			}
		}
		d.constant(r, before)
		d.globals++
	}
}

func (d *decoder) exportEntries(r *reader, n uint32) {
	d.atMost(r, n, mostExports, "exports")
	for ; n > 0 && r.err == nil; n-- {
		e := Export{Name: r.name(), Kind: Kind(r.byte())}
		switch e.Kind {
		case Function:
			r.index(d.functions, "function")
		case TableKind:
			r.index(d.tables, "table")
		case MemoryKind:
			if d.memory == nil {
				r.malformed("there is no memory")
			}
			r.zero()
		case GlobalKind:
			r.index(d.globals, "global")
		case 4:
			r.unsupported("exceptions")
		default:
			r.malformed("%s is not known", e.Kind)
		}
		if strings.HasPrefix(e.Name, Reserved) {
			r.fail(fmt.Errorf("%w: %q; names that begin with %q are taken", ErrReserved, e.Name, Reserved))
		}
		d.exports = append(d.exports, e)
	}
}

// restorable reports that memory and the module's own globals are its whole state.
func (d *decoder) restorable() bool { return !d.fixed && len(d.own) <= mostOwn }

func ownName(global uint32) string { return fmt.Sprintf("%s%d", ownPrefix, global) }

func (d *decoder) ownNames() []string {
	var names []string
	for _, g := range d.own {
		names = append(names, ownName(g))
	}
	return names
}
