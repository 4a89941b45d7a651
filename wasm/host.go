package wasm

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// bullpenModule is the name of the module with the functions of this host. docs/wasm.md
// describes them.
const bullpenModule = "bullpen"

// Fields of a task, for the function task.
const (
	fieldPayload = iota
	fieldName
	fieldID
	fieldMeta
)

// mostSaid bounds what a guest passes to fail, log and progress, in bytes.
const mostSaid = 128 << 10

// hostFunction is a function that guests call. It ends the guest if it returns an error.
type hostFunction func(i *instance, stack []uint64) error

// hostModule makes a module of functions.
type hostModule struct{ builder wazero.HostModuleBuilder }

func (h hostModule) add(name string, params, results []api.ValueType, f hostFunction) {
	h.builder.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
		i := at(ctx)
		i.heed()
		if err := f(i, stack); err != nil {
			panic(err) // wazero turns it into the error of the call
		}
	}), params, results).Export(name)
}

func types(all ...api.ValueType) []api.ValueType { return all }

// bullpenFunctions returns the module bullpen.
func bullpenFunctions(r wazero.Runtime) wazero.HostModuleBuilder {
	h := hostModule{r.NewHostModuleBuilder(bullpenModule)}
	h.add("task", types(i32, i32, i32), types(i32), hostTask)
	h.add("timeout", nil, types(i64), func(i *instance, stack []uint64) error {
		stack[0] = 0
		if due := i.due.Load(); due > 0 {
			stack[0] = uint64(max(1, (due-i.pool.now())/int64(time.Microsecond)))
		}
		return nil
	})
	h.add("result", types(i32, i32), nil, hostResult)
	h.add("fail", types(i32, i32, i32, i32), nil, hostFail)
	h.add("log", types(i32, i32, i32), nil, func(i *instance, stack []uint64) error {
		text, err := i.text(stack[1], stack[2], "a line to log")
		if err == nil {
			i.say(bullpen.LogLine{Time: time.Now(), Level: int(int32(stack[0])), Stream: "log", Text: text})
		}
		return err
	})
	h.add("progress", types(f64, i32, i32), nil, func(i *instance, stack []uint64) error {
		note, err := i.text(stack[1], stack[2], "a note of progress")
		if o := i.call.task.Observer; err == nil && o != nil {
			fraction := api.DecodeF64(stack[0])
			if !(fraction >= 0) {
				fraction = 0
			}
			o.Progress(min(fraction, 1), note)
		}
		return err
	})
	return h.builder
}

// text returns a text of the guest, cut to mostSaid bytes.
func (i *instance) text(ptr, n uint64, what string) (string, error) {
	view, err := i.view(uint32(ptr), uint32(n), what)
	return string(view[:min(len(view), mostSaid)]), err
}

// hostTask copies a field of the task, as much of it as there is room for, and returns its
// whole length.
func hostTask(i *instance, stack []uint64) error {
	var field []byte
	t := &i.call.task
	switch uint32(stack[0]) {
	case fieldPayload:
		field = t.Payload
	case fieldName:
		field = []byte(t.Name)
	case fieldID:
		field = []byte(t.ID)
	case fieldMeta:
		field = protocol.BeginPairs(nil, len(t.Meta))
		for key, value := range t.Meta {
			field = protocol.AppendPair(field, key, value)
		}
	default:
		return &lieError{fmt.Sprintf("the function task has no field %d", uint32(stack[0]))}
	}
	room, err := i.view(uint32(stack[1]), uint32(stack[2]), "the room for a field of the task")
	copy(room, field)
	stack[0] = uint64(uint32(len(field)))
	return err
}

// hostResult takes the result of the task.
func hostResult(i *instance, stack []uint64) error {
	n := uint32(stack[1])
	if int64(n) > int64(i.call.output) {
		i.out.over = int(n)
		return errEnded
	}
	view, err := i.view(uint32(stack[0]), n, "the result")
	i.answer = answer{given: true, payload: append([]byte(nil), view...)}
	return err
}

// hostFail takes the failure of the task, which is encoded as in an ERROR of
// protocol/SPEC.md.
func hostFail(i *instance, stack []uint64) error {
	n := uint32(stack[3])
	if n > mostSaid {
		return &lieError{fmt.Sprintf("the failure has %d bytes, more than %d", n, mostSaid)}
	}
	view, err := i.view(uint32(stack[2]), n, "the failure")
	if err != nil {
		return err
	}
	pairs, err := protocol.ParseAllPairs(view)
	if err != nil {
		return &lieError{fmt.Sprintf("the failure is malformed: %v", err)}
	}
	a := answer{given: true, outcome: bullpen.Failed, final: uint32(stack[1])&1 != 0}
	switch uint32(stack[0]) {
	case protocol.OutcomeFailed:
	case protocol.OutcomePanic:
		a.outcome = bullpen.Panic
	case protocol.OutcomeTimeout:
		a.outcome = bullpen.Timeout
	case protocol.OutcomeOutput:
		a.outcome = bullpen.Output
	default:
		return &lieError{fmt.Sprintf("a task cannot fail with the outcome %d", uint32(stack[0]))}
	}
	for _, p := range pairs {
		switch p.Key {
		case "type":
			a.kind = string(p.Value)
		case "message":
			a.message = string(p.Value)
		case "stack":
			a.stack = string(p.Value)
		}
	}
	i.answer = a
	return nil
}
