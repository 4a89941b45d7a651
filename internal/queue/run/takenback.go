package run

import "time"

// takenBackFor is for how long it is remembered that a job was canceled: longer than a
// job is on its way from the store, or from the backlog of its group to a hand, where
// nobody who cancels it finds it.
const takenBackFor = time.Minute

// takenBack remembers which jobs were canceled lately.
type takenBack struct {
	ids    map[string]time.Time
	pruned time.Time
}

func (t *takenBack) add(id string, now time.Time) {
	if t.ids == nil {
		t.ids = make(map[string]time.Time)
	}
	if now.Sub(t.pruned) > takenBackFor {
		for id, at := range t.ids {
			if now.Sub(at) > takenBackFor {
				delete(t.ids, id)
			}
		}
		t.pruned = now
	}
	t.ids[id] = now
}

// wasTakenBack reports whether a job was canceled lately: its outcome is recorded.
func (q *Node) wasTakenBack(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, was := q.takenBack.ids[id]
	return was
}
