package wasm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// hostFunctions are the functions of the host that take numbers of a guest.
var hostFunctions = []imported{
	importTask, importResult, importFail, importLog,
	{extismModule, "alloc", vI64, vI64}, {extismModule, "free", vI64, none}, {extismModule, "length", vI64, vI64},
	{extismModule, "load_u8", vI64, vI32}, {extismModule, "load_u64", vI64, vI64},
	{extismModule, "input_load_u8", vI64, vI32}, {extismModule, "input_load_u64", vI64, vI64},
	{extismModule, "store_u8", []byte{0x7e, 0x7f}, none}, {extismModule, "store_u64", []byte{0x7e, 0x7e}, none},
	{extismModule, "output_set", []byte{0x7e, 0x7e}, none}, {extismModule, "error_set", vI64, none},
	{extismModule, "config_get", vI64, vI64}, {extismModule, "var_get", vI64, vI64}, {extismModule, "var_set", []byte{0x7e, 0x7e}, none},
	{extismModule, "log_warn", vI64, none},
}

// FuzzHostFunctions has a guest call functions of the host with any numbers. Whatever it does,
// its task has an outcome that blames the guest, and the host has no fault.
func FuzzHostFunctions(f *testing.F) {
	for n := range hostFunctions {
		f.Add(uint8(n), int64(8), int64(8), "text")
		f.Add(uint8(n), int64(-1), int64(1)<<32, "")
	}
	f.Fuzz(func(t *testing.T, n uint8, a, b int64, memory string) {
		i := hostFunctions[int(n)%len(hostFunctions)]
		var body []byte
		for range 2 { // what the first call leaves is there for the second
			for at, param := range i.params {
				value := []int64{a, b}[at%2]
				if param == 0x7f {
					body = append(body, num(int32(value))...)
				} else {
					body = append(body, code(opI64Const, value)...)
				}
			}
			body = append(body, opCall, 0)
			if len(i.results) > 0 {
				body = append(body, opDrop)
			}
		}
		m := &builder{pages: 1, imports: []imported{i}, data: map[uint32]string{0: memory[:min(len(memory), page)]}, funcs: []function{{export: "f", body: body}}}
		if i.module == bullpenModule {
			m.funcs[0].export = exportStart
		}
		p, err := New(Config{Code: m.build(), Max: 1, Limits: bullpen.Limits{Memory: 1 << 20, Timeout: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Execute(t.Context(), bullpen.Task{Name: "f", Payload: []byte("payload"), Meta: map[string]string{"key": "value"}})
		allowed := []bullpen.Outcome{bullpen.OK, bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Crashed, bullpen.Memory, bullpen.Output, bullpen.Protocol}
		o, started := bullpen.OutcomeOf(err)
		if te, ok := err.(*bullpen.TaskError); !started || !slices.Contains(allowed, o) || ok && (te.Type == hostFault || strings.Contains(te.Message, "runtime error")) { //nolint:errorlint // it is not wrapped
			t.Errorf("%s(%d, %d) gave %v", i.name, a, b, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}
