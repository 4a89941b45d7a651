package pool

// closure is a task without result, context and state. It is a single pointer, so it needs
// no memory other than its place in the queue.
type closure func()

func (c closure) run(w *worker) {
	c()
	w.count(w.pool.main.kind)
}

func (closure) fail(error)                {}
func (closure) stale() bool               { return false }
func (closure) crash(w *worker, t thrown) { crashed(w, w.pool.main.kind, t) }
func (closure) named() *kind              { return nil }

// namedClosure is a closure of a submitter with a name.
type namedClosure struct {
	fn   func()
	kind *kind
}

func (c *namedClosure) run(w *worker) {
	c.fn()
	w.count(c.kind)
}

func (c *namedClosure) fail(err error)            { c.kind.neverStarted() }
func (*namedClosure) stale() bool                 { return false }
func (c *namedClosure) crash(w *worker, t thrown) { crashed(w, c.kind, t) }
func (c *namedClosure) named() *kind              { return c.kind }

// crashed counts a closure that panicked or called Goexit.
func crashed(w *worker, k *kind, t thrown) {
	w.home.outcome(k, t.err(k.name))
}
