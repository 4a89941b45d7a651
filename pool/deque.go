package pool

// item is something that waits in a queue and that a worker runs.
type item interface {
	// run runs the item. The worker calls it once, after taking the item from a queue. It
	// does nothing if the item has ended in the meantime.
	run(w *worker)
	// fail ends an item with err that was taken from a queue without being run. It may call
	// user code, so no lock may be held. A nil err releases a stale item.
	fail(err error)
	// stale reports whether the item ended while it waited, so that its place is free.
	stale() bool
	// crash ends an item whose body panicked or called Goexit.
	crash(w *worker, thrown thrown)
	// named returns the kind that counts the item.
	named() *kind
}

// Chunks grow from leastChunk to mostChunk items: a small queue costs little, and one of a
// million takes 20 bytes per item (two words and a stamp). mostChunk items fill the largest
// size class of the allocator.
const (
	leastChunk = 64
	mostChunk  = 1600
)

// stampUnit is the unit of the stamps in a chunk, in nanoseconds.
const stampUnit = 1 << 10

// chunk is a part of a deque.
type chunk struct {
	next   *chunk
	base   int64 // zero of the stamps
	head   int   // index of the first item
	tail   int   // index after the last item
	items  []item
	stamps []uint32 // time of acceptance minus base, plus 1, in units; 0 if not measured
}

func newChunk(n int) *chunk {
	return &chunk{items: make([]item, n), stamps: make([]uint32, n)}
}

// deque is a first-in first-out list of items with little memory overhead. The lock of its
// queue guards it.
type deque struct {
	first, last *chunk
	spare       *chunk // an empty chunk to reuse
	n           int
}

// queued is an item and the time when it was accepted, 0 if not measured.
type queued struct {
	item  item
	stamp int64
}

func (d *deque) push(it item, stamp int64) {
	c := d.last
	if c == nil || c.tail == len(c.items) {
		c = d.grow()
	}
	if stamp != 0 {
		c.stamps[c.tail] = c.stamp(stamp)
	}
	c.items[c.tail] = it
	c.tail++
	d.n++
}

// stamp converts a time to a stamp. Times more than an hour after base are not measured.
func (c *chunk) stamp(at int64) uint32 {
	if c.head == c.tail {
		c.base = at
	}
	units := (at-c.base)/stampUnit + 1
	if c.base == 0 || units <= 0 || units > 1<<32-1 {
		return 0
	}
	return uint32(units)
}

func (d *deque) grow() *chunk {
	c := d.spare
	d.spare = nil
	if c == nil {
		n := leastChunk
		if d.last != nil {
			n = min(4*len(d.last.items), mostChunk)
		}
		c = newChunk(n)
	}
	if d.last == nil {
		d.first = c
	} else {
		d.last.next = c
	}
	d.last = c
	return c
}

// pop takes the first item. The deque must not be empty.
func (d *deque) pop() queued {
	c := d.first
	for c.head == c.tail {
		c = d.shed()
	}
	s := queued{item: c.items[c.head]}
	if units := c.stamps[c.head]; units != 0 {
		s.stamp = c.base + int64(units-1)*stampUnit
		c.stamps[c.head] = 0
	}
	c.items[c.head] = nil
	c.head++
	d.n--
	if c.head == c.tail {
		c.head, c.tail = 0, 0 // reuses the memory that is most likely cached
	}
	return s
}

// popMany takes up to len(items) items, at least one, with their stamps, each of which
// stands for weight items. The deque must not be empty.
func (d *deque) popMany(items []item, stamps *[mostOwn]int64, weight uint64) int {
	c := d.first
	for c.head == c.tail {
		c = d.shed()
	}
	end := min(c.head+len(items), c.tail)
	k := copy(items, c.items[c.head:end])
	clear(c.items[c.head:end])
	for i, units := range c.stamps[c.head:end] {
		stamps[i] = 0
		if units != 0 {
			stamps[i] = stampOf(c.base+int64(units-1)*stampUnit, weight)
			c.stamps[c.head+i] = 0
		}
	}
	d.n -= k
	c.head = end
	if end == c.tail {
		c.head, c.tail = 0, 0
	}
	return k
}

// unpop inserts an item before the first one.
func (d *deque) unpop(it item) {
	c := d.first
	if c == nil || c.head == 0 && c.tail > 0 {
		c = newChunk(leastChunk)
		c.head, c.tail = leastChunk, leastChunk
		c.next = d.first
		d.first = c
		if d.last == nil {
			d.last = c
		}
	} else if c.head == 0 {
		c.head, c.tail = len(c.items), len(c.items) // it is empty
	}
	c.head--
	c.items[c.head] = it
	d.n++
}

// shed drops the first chunk, which is empty, and returns the next one.
func (d *deque) shed() *chunk {
	c := d.first
	d.first = c.next
	if d.spare == nil || len(d.spare.items) <= len(c.items) {
		*c = chunk{items: c.items, stamps: c.stamps}
		d.spare = c
	}
	return d.first
}

// join appends all items of from, which is then empty.
func (d *deque) join(from *deque) {
	if d.n == 0 {
		*d, *from = *from, *d // exchanges the empty chunk too
		return
	}
	d.last.next, d.last = from.first, from.last
	d.n += from.n
	*from = deque{spare: d.spare}
	d.spare = nil
}

// compact removes the stale items and returns their number.
func (d *deque) compact() int {
	kept := deque{}
	before := d.n
	for d.n > 0 {
		if s := d.pop(); !s.item.stale() {
			kept.push(s.item, s.stamp)
		} else {
			s.item.fail(nil) // releases the object
		}
	}
	*d = kept
	return before - kept.n
}
