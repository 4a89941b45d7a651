package pebble

// recent knows the highest keys of an index, so that it need not be asked whether a
// new id is there: ids rise with time. It belongs to the committer. All keys above
// floor that are stored are in one of two maps; what is below, the index knows.
type recent struct {
	known    bool // floor holds
	floor    string
	top      string // the highest key of both maps
	middle   string // the highest of the older one
	new, old map[string][]place
}

// mostRecent is how many keys a map has.
const mostRecent = 4096

// begin starts with the highest key that is stored.
func (r *recent) begin(highest string) {
	*r = recent{known: true, floor: highest, top: highest, middle: highest, new: map[string][]place{}, old: map[string][]place{}}
}

// get gives what stands at a key; known says that this is so.
func (r *recent) get(key []byte) (places []place, known bool) {
	if !r.known || string(key) <= r.floor {
		return nil, false
	}
	if places, ok := r.new[string(key)]; ok {
		return places, true
	}
	return r.old[string(key)], true
}

// set notes what stands at a key since the last batch.
func (r *recent) set(key string, places []place) {
	if !r.known || key <= r.floor {
		return
	}
	delete(r.old, key)
	if len(places) == 0 {
		delete(r.new, key)
	} else {
		r.new[key] = places
	}
	r.top = max(r.top, key)
	if len(r.new) >= mostRecent {
		r.floor, r.middle = r.middle, r.top
		r.old, r.new = r.new, r.old
		for key := range r.new {
			if key > r.floor {
				r.old[key] = r.new[key] // it came late, among higher ones
			}
		}
		clear(r.new)
	}
}
