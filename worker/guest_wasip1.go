package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// The functions of the host, see docs/wasm.md.

//go:wasmimport bullpen task
func hostTask(field uint32, room unsafe.Pointer, size uint32) uint32

//go:wasmimport bullpen timeout
func hostTimeout() int64

//go:wasmimport bullpen result
func hostResult(b unsafe.Pointer, size uint32)

//go:wasmimport bullpen fail
func hostFail(code, flags uint32, b unsafe.Pointer, size uint32)

//go:wasmimport bullpen log
func hostLog(level int32, b unsafe.Pointer, size uint32)

//go:wasmimport bullpen progress
func hostProgress(fraction float64, b unsafe.Pointer, size uint32)

// field returns a field of the task.
func field(n uint32) []byte {
	b := make([]byte, hostTask(n, nil, 0))
	hostTask(n, unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
	return b
}

// Fields of a task.
const (
	fieldPayload = iota
	fieldName
	fieldID
	fieldMeta
)

// runGuest runs the one task for which an instance of package wasm was started. Its deadline
// ends the context of the handler; a cancellation ends the instance.
func runGuest(c Config) (served bool, err error) {
	t := bullpen.Task{Name: string(field(fieldName)), ID: string(field(fieldID)), Payload: field(fieldPayload), Observer: guestObserver{}}
	pairs, err := protocol.ParseAllPairs(field(fieldMeta))
	if err != nil {
		return true, err
	}
	for _, p := range pairs {
		if t.Meta == nil {
			t.Meta = map[string]string{}
		}
		t.Meta[p.Key] = string(p.Value)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if left := time.Duration(hostTimeout()) * time.Microsecond; left > 0 {
		t.Limits.Timeout = left
		ctx, cancel = context.WithTimeout(ctx, left)
	}
	defer cancel()
	h := c.Handlers[t.Name]
	if h == nil {
		h = c.Handlers["*"]
	}
	if h == nil {
		h = func(context.Context, bullpen.Task) ([]byte, error) {
			return nil, bullpen.Fail(fmt.Sprintf("this module has no handler for the task %q: name those that it has in Config.Tasks", t.Name), false)
		}
	}
	// A handler may wait for its context only, which the host ends. Without a timer, Go would
	// take that for a deadlock.
	defer time.AfterFunc(math.MaxInt64, func() {}).Stop()
	ended := make(chan ending, 1)
	go handle(ctx, h, t, ended) // ends with the handler, which is waited for
	e := <-ended
	if e.code == 0 {
		hostResult(unsafe.Pointer(unsafe.SliceData(e.payload)), uint32(len(e.payload)))
		return true, nil
	}
	if e.asked && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.code = protocol.OutcomeTimeout
	}
	var flags uint32
	if e.final {
		flags = 1
	}
	body := e.body(maxMessage)
	hostFail(uint32(e.code), flags, unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)))
	return true, nil
}

// handle runs a handler, and sends how it ended, also if it panicked or ended its goroutine.
func handle(ctx context.Context, h bullpen.Handler, t bullpen.Task, ended chan<- ending) {
	var e ending
	defer func() {
		if !e.returned {
			e.broke(recover())
		}
		ended <- e
	}()
	payload, err := h(ctx, t)
	if err != nil {
		e.failed(err)
	} else {
		e.payload = payload
	}
	e.returned = true
}

// guestObserver passes progress and log lines to the host.
type guestObserver struct{}

func (guestObserver) Progress(fraction float64, note string) {
	hostProgress(fraction, unsafe.Pointer(unsafe.StringData(note)), uint32(len(note)))
}

func (guestObserver) Log(line bullpen.LogLine) {
	hostLog(int32(line.Level), unsafe.Pointer(unsafe.StringData(line.Text)), uint32(len(line.Text)))
}
