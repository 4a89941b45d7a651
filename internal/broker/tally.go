package broker

import (
	"bytes"
	"slices"
)

// lookback is how many records may stand between the end of a job and its
// acceptance. The end comes first only when two goroutines raced to the gate.
const lookback = 4096

// tally computes from records which jobs were accepted and have not ended.
type tally struct {
	open  map[id]struct{}
	early map[id]int // ends that came first, and where
	n     int        // records seen
}

// newTally makes room for what so many bytes of records may leave open.
func newTally(bytes int64) *tally {
	const most = 1 << 20 // a longer ledger of many ended jobs needs less than that
	return &tally{open: make(map[id]struct{}, min(bytes/recordSize, most)), early: map[id]int{}}
}

func (t *tally) add(kind recordKind, i id) {
	t.n++
	switch kind {
	case acceptedRecord:
		if at, found := t.early[i]; found {
			delete(t.early, i)
			if t.n-at <= lookback {
				return
			}
		}
		t.open[i] = struct{}{}
	case endedRecord:
		if _, found := t.open[i]; found {
			delete(t.open, i)
			return
		}
		t.early[i] = t.n
		if len(t.early) > 2*lookback {
			t.forget()
		}
	}
}

// forget drops ends whose acceptance will not come any more.
func (t *tally) forget() {
	for i, at := range t.early {
		if t.n-at > lookback {
			delete(t.early, i)
		}
	}
}

// ids returns the open ones in order of time.
func (t *tally) ids() []id {
	ids := make([]id, 0, len(t.open))
	for i := range t.open {
		ids = append(ids, i)
	}
	slices.SortFunc(ids, func(a, b id) int { return bytes.Compare(a[:], b[:]) })
	return ids
}
