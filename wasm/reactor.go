package wasm

import (
	"bytes"
	"fmt"
)

// runReactor runs a task by bullpen_run: the payload is copied into memory of the guest, and
// the result out of it.
func (i *instance) runReactor() ([]byte, error) {
	if err := i.ready(); err != nil {
		return nil, err
	}
	if i.run == nil {
		i.run = i.module.ExportedFunction(exportRun)
	}
	payload := i.call.task.Payload
	if len(payload) > int(i.room) {
		if err := i.allocate(uint32(len(payload))); err != nil {
			return nil, err
		}
	}
	if copied := copy(i.memory.buf[i.buffer:], payload); copied < len(payload) {
		return nil, &lieError{"the buffer that bullpen_alloc returned is gone: memory became smaller"}
	}
	if i.stopped() {
		return nil, errEnded
	}
	i.stack[0], i.stack[1] = uint64(i.buffer), uint64(len(payload))
	if err := i.run.CallWithStack(&i.ctx, i.stack[:]); err != nil {
		return nil, err
	}
	if i.answer.given {
		return i.answer.payload, nil
	}
	at, n := uint32(i.stack[0]>>32), uint32(i.stack[0])
	if n == 0 {
		return nil, nil
	}
	if int64(n) > int64(i.call.output) {
		i.out.over = int(n)
		return nil, nil
	}
	view, err := i.view(at, n, "the result of bullpen_run")
	if err != nil {
		return nil, err
	}
	return bytes.Clone(view), nil
}

// least is the smallest room for payloads that is asked for, so that tasks of one kind have
// one buffer.
const leastRoom = 4 << 10

// allocate asks the guest for room for a payload. The buffer belongs to the host from then
// on: it is used for later tasks too, if the instance is.
func (i *instance) allocate(n uint32) error {
	if i.alloc == nil {
		i.alloc = i.module.ExportedFunction(exportAlloc)
	}
	if i.stopped() {
		return errEnded
	}
	n = max(n, leastRoom)
	i.stack[0] = uint64(n)
	if err := i.alloc.CallWithStack(&i.ctx, i.stack[:]); err != nil {
		return err
	}
	at := uint32(i.stack[0])
	if at == 0 {
		return &lieError{fmt.Sprintf("bullpen_alloc has no room for %d bytes: it returned 0", n)}
	}
	if _, err := i.view(at, n, "the buffer of bullpen_alloc"); err != nil {
		return err
	}
	i.buffer, i.room = at, n
	if i.pool.module.mode == Stateless {
		i.alloc = nil // it holds a stack, and is rarely needed again
	}
	return nil
}

// view returns a part of the guest's memory, which is valid until the guest runs.
func (i *instance) view(at, n uint32, what string) ([]byte, error) {
	if uint64(at)+uint64(n) > uint64(len(i.memory.buf)) {
		return nil, &lieError{fmt.Sprintf("%s, %d bytes at %d, leads out of the memory of %d bytes", what, n, at, len(i.memory.buf))}
	}
	return i.memory.buf[at : at+n : at+n], nil
}
