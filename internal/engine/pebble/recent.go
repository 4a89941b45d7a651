package pebble

// recent caches the highest keys of an index, so that a new id needs no read: ids rise
// with time. It belongs to the committer. All stored keys above floor are in one of the
// two maps; the keys below are only in the index.
type recent struct {
	known    bool // floor is valid
	floor    string
	top      string // the highest key of both maps
	middle   string // the highest key of the older map
	new, old map[string][]entry
}

// mostRecent is the largest number of keys in a map.
const mostRecent = 4096

// begin sets the highest stored key.
func (r *recent) begin(highest string) {
	*r = recent{known: true, floor: highest, top: highest, middle: highest, new: map[string][]entry{}, old: map[string][]entry{}}
}

// get returns the entry at a key, if it is known without reading.
func (r *recent) get(key []byte) (entries []entry, known bool) {
	if !r.known || string(key) <= r.floor {
		return nil, false
	}
	if entries, ok := r.new[string(key)]; ok {
		return entries, true
	}
	return r.old[string(key)], true
}

// set records the entry at a key as of the last batch.
func (r *recent) set(key string, entries []entry) {
	if !r.known || key <= r.floor {
		return
	}
	delete(r.old, key)
	if len(entries) == 0 {
		delete(r.new, key)
	} else {
		r.new[key] = entries
	}
	r.top = max(r.top, key)
	if len(r.new) >= mostRecent {
		r.floor, r.middle = r.middle, r.top
		r.old, r.new = r.new, r.old
		for key := range r.new {
			if key > r.floor {
				r.old[key] = r.new[key] // it came late, among higher keys
			}
		}
		clear(r.new)
	}
}
