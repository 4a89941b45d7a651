package pool

// caller is a caller blocked at a full queue, and its item.
type caller struct {
	next, prev *caller
	queue      *queue
	at         *target
	item       item
	answer     chan error // has room for the one answer; nil means accepted
	listed     bool
}

// waitList holds blocked callers, first come first served. The lock of its admission guards it.
type waitList struct {
	first, last *caller
	n           int
}

func (l *waitList) push(c *caller) {
	c.prev, c.listed = l.last, true
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.n++
}

func (l *waitList) remove(c *caller) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev, c.listed = nil, nil, false
	l.n--
}

func (l *waitList) pop() *caller {
	c := l.first
	if c != nil {
		l.remove(c)
	}
	return c
}
