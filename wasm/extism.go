package wasm

import (
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bullpen-run/bullpen"
)

// extismModule is the name of the module with the functions that plug-ins of Extism import.
const extismModule = "extism:host/env"

// mostVars bounds the variables of a plug-in, in bytes, as Extism does by default.
const mostVars = 1 << 20

// runPlugin runs a task by the function of its name. A result other than 0, or an error
// that was set, is a failure.
func (i *instance) runPlugin() ([]byte, error) {
	i.kernel.reset(&i.memory)
	if err := i.ready(); err != nil {
		return nil, err
	}
	name := i.call.task.Name
	f := i.functions[name]
	if f == nil {
		if f = i.module.ExportedFunction(name); f == nil {
			return nil, fmt.Errorf("the plug-in has no function %q", name)
		}
		if i.functions == nil {
			i.functions = map[string]api.Function{}
		}
		i.functions[name] = f
	}
	k := i.kernel
	if k.input = k.keep(i.call.task.Payload); k.input.length < uint64(len(i.call.task.Payload)) {
		return nil, errors.New("the payload is larger than the limit of the memory")
	}
	if err := i.call0(f); err != nil {
		return nil, err
	}
	if k.failure != 0 || uint32(i.stack[0]) != 0 {
		i.answer = answer{given: true, outcome: bullpen.Failed, message: fmt.Sprintf("the function returned %d", int32(i.stack[0]))}
		if text, ok := k.block(k.failure); ok {
			i.answer.message = string(text[:min(len(text), mostSaid)])
		}
		return nil, nil
	}
	if k.output.length > uint64(i.call.output) {
		i.out.over = int(min(k.output.length, most32))
		return nil, nil
	}
	if k.output.length == 0 {
		return nil, nil
	}
	view, err := k.view(k.output.offset, k.output.length)
	return append([]byte(nil), view...), err
}

// haskell starts the runtime of a plug-in that is written in Haskell.
func (i *instance) haskell() error {
	f := i.module.ExportedFunction(exportHaskell)
	if f == nil || len(f.Definition().ParamTypes()) != 2 {
		return nil
	}
	i.stack = [2]uint64{}
	return f.CallWithStack(&i.ctx, i.stack[:])
}

// kernel is the memory that a plug-in shares with its host: blocks, by their offsets. It is
// reset for each task. The offset 0 is no block.
type kernel struct {
	memory  *memory // whose bound counts the blocks too
	arena   []byte
	blocks  map[uint64]uint64 // the lengths, by offset
	input   part
	output  part
	failure uint64
	vars    map[string][]byte
	varSize int
}

type part struct{ offset, length uint64 }

// firstBlock is the offset of the first block.
const firstBlock = 8

func (k *kernel) reset(m *memory) {
	clear(k.arena)
	if cap(k.arena) > keepFree {
		k.arena = nil
	}
	k.arena = append(k.arena[:0], make([]byte, firstBlock)...)
	clear(k.blocks)
	if k.blocks == nil {
		k.blocks = map[uint64]uint64{}
	}
	k.memory, k.input, k.output, k.failure, k.varSize = m, part{}, part{}, 0, 0
	clear(k.vars)
	m.beside = firstBlock
}

// alloc makes a block, and returns 0 if the memory has no room for it.
func (k *kernel) alloc(n uint64) uint64 {
	at := uint64(len(k.arena)+7) &^ 7
	if n == 0 {
		return 0
	}
	if most := uint64(k.memory.bound); n > most || at+n+uint64(len(k.memory.buf)) > most {
		k.memory.refused = int64(min(at, most32) + min(n, most32))
		return 0
	}
	k.arena = append(k.arena, make([]byte, at+n-uint64(len(k.arena)))...)
	k.memory.beside = int64(len(k.arena))
	k.blocks[at] = n
	return at
}

// keep makes a block of b. The part is empty if there is no room.
func (k *kernel) keep(b []byte) part {
	at := k.alloc(uint64(len(b)))
	if at == 0 {
		return part{}
	}
	copy(k.arena[at:], b)
	return part{at, uint64(len(b))}
}

// free ends a block. Its room is used again if it is the last one.
func (k *kernel) free(at uint64) {
	n, ok := k.blocks[at]
	if !ok {
		return
	}
	delete(k.blocks, at)
	if at+n == uint64(len(k.arena)) {
		clear(k.arena[at:])
		k.arena = k.arena[:at]
	}
}

// block returns the content of a block.
func (k *kernel) block(at uint64) ([]byte, bool) {
	n, ok := k.blocks[at]
	if !ok {
		return nil, false
	}
	return k.arena[at : at+n : at+n], true
}

// view returns a part of the memory.
func (k *kernel) view(at, n uint64) ([]byte, error) {
	if size := uint64(len(k.arena)); at > size || n > size-at {
		return nil, &lieError{fmt.Sprintf("%d bytes at %d lead out of the memory that the plug-in shares with the host, %d bytes", n, at, size)}
	}
	return k.arena[at : at+n : at+n], nil
}

// named returns the content of a block that is a name or a text.
func (k *kernel) named(at uint64, what string) (string, error) {
	b, ok := k.block(at)
	if !ok {
		return "", &lieError{fmt.Sprintf("%s is at %d, where no block begins", what, at)}
	}
	return string(b), nil
}

// setVar sets or, with the offset 0, deletes a variable.
func (k *kernel) setVar(key, value uint64) error {
	name, err := k.named(key, "the name of a variable")
	if err != nil {
		return err
	}
	old, had := k.vars[name]
	if had {
		k.varSize -= len(name) + len(old)
		delete(k.vars, name)
	}
	if value == 0 {
		return nil
	}
	b, ok := k.block(value)
	if !ok {
		return &lieError{fmt.Sprintf("the value of a variable is at %d, where no block begins", value)}
	}
	if k.varSize += len(name) + len(b); k.varSize > mostVars {
		return &lieError{fmt.Sprintf("the variables of the plug-in have more than %s", size(mostVars))}
	}
	if k.vars == nil {
		k.vars = map[string][]byte{}
	}
	k.vars[name] = append([]byte(nil), b...)
	return nil
}

// extismLevels are the levels of the functions that log, as slog has them.
var extismLevels = map[string]int{"log_trace": -8, "log_debug": -4, "log_info": 0, "log_warn": 4, "log_error": 8}

// extismFunctions returns the module extism:host/env, without the functions for HTTP.
func extismFunctions(r wazero.Runtime) wazero.HostModuleBuilder {
	h := hostModule{r.NewHostModuleBuilder(extismModule)}
	extismBlocks(h)
	h.add("output_set", types(i64, i64), nil, func(i *instance, s []uint64) error {
		i.kernel.output = part{s[0], s[1]}
		return nil
	})
	h.add("error_set", types(i64), nil, func(i *instance, s []uint64) error {
		i.kernel.failure = s[0]
		return nil
	})
	h.add("config_get", types(i64), types(i64), func(i *instance, s []uint64) error {
		name, err := i.kernel.named(s[0], "the name of a setting")
		s[0] = i.kernel.keep([]byte(i.pool.config.Settings[name])).offset
		return err
	})
	h.add("var_get", types(i64), types(i64), func(i *instance, s []uint64) error {
		name, err := i.kernel.named(s[0], "the name of a variable")
		s[0] = i.kernel.keep(i.kernel.vars[name]).offset
		return err
	})
	h.add("var_set", types(i64, i64), nil, func(i *instance, s []uint64) error { return i.kernel.setVar(s[0], s[1]) })
	for name, level := range extismLevels {
		h.add(name, types(i64), nil, func(i *instance, s []uint64) error {
			text, err := i.kernel.named(s[0], "a line to log")
			if err == nil {
				i.say(bullpen.LogLine{Time: time.Now(), Level: level, Stream: "log", Text: text[:min(len(text), mostSaid)]})
				i.kernel.free(s[0])
			}
			return err
		})
	}
	h.add("get_log_level", nil, types(i32), func(_ *instance, s []uint64) error {
		s[0] = 0 // all, from trace on
		return nil
	})
	return h.builder
}

// extismBlocks adds the functions for blocks and for the input.
func extismBlocks(h hostModule) {
	h.add("alloc", types(i64), types(i64), func(i *instance, s []uint64) error { s[0] = i.kernel.alloc(s[0]); return nil })
	h.add("free", types(i64), nil, func(i *instance, s []uint64) error { i.kernel.free(s[0]); return nil })
	for _, name := range []string{"length", "length_unsafe"} {
		h.add(name, types(i64), types(i64), func(i *instance, s []uint64) error { s[0] = i.kernel.blocks[s[0]]; return nil })
	}
	h.add("input_length", nil, types(i64), func(i *instance, s []uint64) error { s[0] = i.kernel.input.length; return nil })
	h.add("input_offset", nil, types(i64), func(i *instance, s []uint64) error { s[0] = i.kernel.input.offset; return nil })
	load := func(name string, n uint64, result api.ValueType, of func(k *kernel) part) {
		h.add(name, types(i64), types(result), func(i *instance, s []uint64) error {
			from := of(i.kernel)
			if s[0] > from.length || n > from.length-s[0] {
				return &lieError{fmt.Sprintf("%s at %d, of %d bytes", name, s[0], from.length)}
			}
			b, err := i.kernel.view(from.offset+s[0], n)
			s[0] = 0
			for at, one := range b {
				s[0] |= uint64(one) << (8 * at)
			}
			return err
		})
	}
	all := func(k *kernel) part { return part{0, uint64(len(k.arena))} }
	input := func(k *kernel) part { return k.input }
	load("load_u8", 1, i32, all)
	load("load_u64", 8, i64, all)
	load("input_load_u8", 1, i32, input)
	load("input_load_u64", 8, i64, input)
	store := func(name string, n int, value api.ValueType) {
		h.add(name, types(i64, value), nil, func(i *instance, s []uint64) error {
			b, err := i.kernel.view(s[0], uint64(n))
			for at := range b {
				b[at] = byte(s[1] >> (8 * at))
			}
			return err
		})
	}
	store("store_u8", 1, i32)
	store("store_u64", 8, i64)
}
