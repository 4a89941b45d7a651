package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bullpen-run/bullpen"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
	f64 = api.ValueTypeF64
)

// instance is a place in which one task runs at a time. It has an instance of the module,
// which is made for the first task, and for each task if the mode is Fresh. What is costly
// to make and keeps no state stays: the buffer of the memory, the streams, the configuration.
//
// Its fields belong to the goroutine that runs its task, and to Pool.mu while it is idle.
type instance struct {
	control

	pool   *Pool
	name   string
	since  int64 // when it became idle
	config wazero.ModuleConfig
	ctx    guestContext
	making context.Context //nolint:containedctx // for instantiation: ctx and the allocator
	memory memory
	in     input
	out    output
	err    stderr
	call   *call  // the running task
	answer answer // what the guest has said of its end
	timer  *time.Timer

	module    api.Module // nil if there is none
	run       api.Function
	alloc     api.Function
	functions map[string]api.Function // of a plug-in
	globals   []api.MutableGlobal
	ticks     api.MutableGlobal
	image     *image
	buffer    uint32 // where the payload of the next task goes, and how much room there is
	room      uint32
	kernel    *kernel // of a plug-in
	stack     [2]uint64
}

// instanceKey is the key of the instance in its context.
type instanceKey struct{}

// guestContext is the context of all calls of a guest. It leads host functions to the
// instance.
type guestContext struct {
	context.Context //nolint:containedctx // it is one itself

	instance *instance
}

func (c *guestContext) Value(key any) any {
	if _, ok := key.(instanceKey); ok {
		return c.instance
	}
	return nil
}

// at returns the instance that calls a host function.
func at(ctx context.Context) *instance {
	return ctx.Value(instanceKey{}).(*instance) //nolint:forcetypeassert // all calls have guestContext
}

// answer is what a guest has said of the end of its task by host functions.
type answer struct {
	given   bool
	payload []byte
	outcome bullpen.Outcome // OK for a result
	final   bool
	kind    string
	message string
	stack   string
}

// newInstance makes an instance without a module. Pool.mu is held; equip does the rest.
func (p *Pool) newInstance() *instance {
	p.made++
	i := &instance{pool: p, name: fmt.Sprintf("%s-%d", p.config.Name, p.made)}
	i.wake = make(chan struct{}, 1)
	return i
}

// equip prepares a new instance for its first task.
func (i *instance) equip() {
	m := i.pool.module
	i.ctx = guestContext{context.Background(), i}
	i.making = experimental.WithMemoryAllocator(&i.ctx, &i.memory)
	i.memory.keep = int(max(keepFree, 2*m.least))
	i.out.instance, i.err.instance = i, i
	i.config = wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithSysWalltime().WithSysNanotime().WithNanosleep(i.sleep).WithOsyield(i.yield).WithRandSource(random{i}).
		WithArgs(m.args...).WithStdin(&i.in).WithStdout(&i.out).WithStderr(&i.err)
	if len(m.mounts) > 0 {
		i.config = i.config.WithFSConfig(m.fs)
	}
	for _, pair := range m.env {
		i.config = i.config.WithEnv(pair[0], pair[1])
	}
	if m.abi == Extism {
		i.kernel = &kernel{}
	}
}

// prepare makes the streams and bounds those of a task.
func (i *instance) prepare(c *call) {
	if i.config == nil {
		i.equip()
	}
	i.call, i.answer = c, answer{}
	i.memory.bound, i.memory.refused = c.memory/page*page, 0
	i.in.data = nil
	i.out.reset(c.output)
	i.err.reset()
}

// errEnded is what host functions panic with in a guest that was stopped.
var errEnded = errors.New("the task was ended")

// heed ends the guest if its task was stopped. Host functions that may take long call it.
func (i *instance) heed() {
	if i.stopped() {
		panic(errEnded) // wazero turns it into the error of the call
	}
}

// sleep is the sleep of a guest. The end of its task wakes it.
func (i *instance) sleep(ns int64) {
	i.heed()
	if i.timer == nil {
		i.timer = time.NewTimer(time.Duration(ns))
	} else {
		i.timer.Reset(time.Duration(ns))
	}
	select {
	case <-i.timer.C:
	case <-i.wake:
		i.timer.Stop()
	}
	i.heed()
}

func (i *instance) yield() { i.heed() }

// random is the source of random bytes of a guest, in pieces, so that a stop ends it.
type random struct{ instance *instance }

func (r random) Read(b []byte) (int, error) {
	r.instance.heed()
	return rand.Read(b[:min(len(b), page)])
}

// instantiate makes the instance of the module. No code of the guest runs.
func (i *instance) instantiate(config wazero.ModuleConfig) error {
	p := i.pool
	mod, err := p.module.runtime.InstantiateModule(i.making, p.module.compiled, config)
	if err != nil {
		i.memory.Free()
		return fmt.Errorf("%w: %w", bullpen.ErrStart, err)
	}
	i.module = mod
	flag, ok := mod.ExportedGlobal(p.module.code.Flag).(api.MutableGlobal)
	if !ok {
		return fmt.Errorf("%w: the rewritten module does not export its flag", bullpen.ErrStart)
	}
	i.ticks, _ = mod.ExportedGlobal(p.module.code.Ticks).(api.MutableGlobal)
	i.flag.Store(&flag)
	p.instantiated.Add(1)
	return nil
}

// initialize calls the functions that begin a new instance. Code of the guest runs.
func (i *instance) initialize() error {
	for _, name := range i.pool.module.begin {
		if err := i.call0(i.module.ExportedFunction(name)); err != nil {
			return err
		}
	}
	if i.pool.module.abi == Extism {
		return i.haskell()
	}
	return nil
}

// call0 calls a function without parameters and at most one result, which is in stack[0]
// then. A guest whose task was stopped before it began is not called.
func (i *instance) call0(f api.Function) error {
	if i.stopped() {
		return errEnded
	}
	i.stack[0] = 0
	return f.CallWithStack(&i.ctx, i.stack[:])
}

// discard ends the instance of the module.
func (i *instance) discard() {
	i.flag.Store(nil)
	if i.module == nil {
		return
	}
	if i.ticks != nil {
		i.pool.ticks.Add(i.ticks.Get())
	}
	_ = i.module.Close(&i.ctx) // closes files, of which none holds data back
	i.module, i.run, i.alloc, i.functions, i.globals, i.ticks = nil, nil, nil, nil, nil, nil
	i.buffer, i.room = 0, 0
	i.pool.discarded.Add(1)
}

// image is the state of an instance after its initialization, to which it is restored: it is
// the whole state, so all instances of a pool share the image of the first one.
type image struct {
	memory  []byte
	globals []uint64
}

// remember makes the state of this instance the pool's image, if it has none, and finds what
// is to restore.
func (i *instance) remember() error {
	m := i.pool.module
	i.globals = make([]api.MutableGlobal, 0, len(m.code.Globals))
	for _, name := range m.code.Globals {
		g, ok := i.module.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("the rewritten module does not export its global %q", name)
		}
		i.globals = append(i.globals, g)
	}
	if i.image = i.pool.image.Load(); i.image != nil {
		return nil
	}
	own := &image{memory: append([]byte(nil), i.memory.buf...)}
	for _, g := range i.globals {
		own.globals = append(own.globals, g.Get())
	}
	i.pool.image.CompareAndSwap(nil, own)
	i.image = i.pool.image.Load()
	return nil
}

// restore puts memory and globals back. It reports whether that is all that is needed: a
// memory that has grown stays grown.
func (i *instance) restore() bool {
	if len(i.memory.buf) != len(i.image.memory) {
		return false
	}
	copy(i.memory.buf, i.image.memory)
	for at, g := range i.globals {
		g.Set(i.image.globals[at])
	}
	i.pool.restored.Add(1)
	return true
}

// input is the standard input of a guest.
type input struct{ data []byte }

func (r *input) Read(b []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.data)
	r.data = r.data[n:]
	return n, nil
}

// output is the standard output of a command, its result.
type output struct {
	instance *instance
	buf      []byte
	bound    int
	over     int // the size that was more than bound, or 0
}

func (w *output) reset(bound int) { w.buf, w.bound, w.over = nil, bound, 0 }

func (w *output) Write(b []byte) (int, error) {
	i := w.instance
	i.heed()
	if i.pool.module.abi != Command || i.pool.module.speaks {
		return i.err.Write(b) // the result goes another way, so what is printed is for people
	}
	if len(w.buf)+len(b) > w.bound {
		w.over = len(w.buf) + len(b)
		panic(errEnded)
	}
	w.buf = append(w.buf, b...)
	return len(b), nil
}
