package frames

import "slices"

// extents records which bytes of the request part are in use. It has one entry per task
// in flight with a large payload, so only a few; first fit prefers the low end, which
// stays warm in the cache.
type extents struct{ used []extent } // by offset

type extent struct {
	number     uint32
	start, end uint64
}

// take reserves n bytes, in whole cache lines, for a task.
func (e *extents) take(number uint32, n, length uint64) (uint64, bool) {
	n = (n + 63) &^ 63
	at := uint64(0)
	for i, u := range e.used {
		if u.start-at >= n {
			e.used = slices.Insert(e.used, i, extent{number, at, at + n})
			return at, true
		}
		at = u.end
	}
	if n > length || at > length-n {
		return 0, false
	}
	e.used = append(e.used, extent{number, at, at + n})
	return at, true
}

// give frees the bytes of a task. A task without any is ignored.
func (e *extents) give(number uint32) {
	for i, u := range e.used {
		if u.number == number {
			e.used = slices.Delete(e.used, i, i+1)
			return
		}
	}
}
