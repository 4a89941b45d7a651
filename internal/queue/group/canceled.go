package group

import "time"

// canceledFor is how long a canceled job is remembered: longer than a job is on its way
// from the store, or from the backlog of its group to an executor, where Cancel does not
// find it.
const canceledFor = time.Minute

// canceled remembers the jobs canceled recently.
type canceled struct {
	ids    map[string]time.Time
	pruned time.Time
}

func (c *canceled) add(id string, now time.Time) {
	if c.ids == nil {
		c.ids = make(map[string]time.Time)
	}
	if now.Sub(c.pruned) > canceledFor {
		for id, at := range c.ids {
			if now.Sub(at) > canceledFor {
				delete(c.ids, id)
			}
		}
		c.pruned = now
	}
	c.ids[id] = now
}

// NoteCanceled remembers that a job was canceled. Its outcome is already recorded.
func (q *Groups) NoteCanceled(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.canceled.add(id, time.Now())
}

// Canceled reports whether a job was canceled recently.
func (q *Groups) Canceled(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, was := q.canceled.ids[id]
	return was
}

// Remove ends a canceled job in the store if it waits here for its turn.
func (q *Groups) Remove(id string) {
	for _, b := range q.all() {
		if b.remove(id) {
			return
		}
	}
}
