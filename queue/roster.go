package queue

import (
	"context"
	"sync"
	"time"
)

// roster counts the members of one batch in this program.
type roster struct {
	batches *batches
	id      string
	ready   chan struct{} // closed by isReady when the record was read, or is not there
	gone    chan struct{} // closed when the batch is counted here no more

	once sync.Once

	mu       sync.Mutex
	record   *batchRecord   // the newest that is known, nil before ready; guarded by mu
	chunks   map[int]*chunk // guarded by mu
	changed  map[int]bool   // the chunks that are not stored as they are; guarded by mu
	count    [fates]int     // guarded by mu
	first    string         // the id of the job that failed first, as far as is known; guarded by mu
	stored   bool           // a chunk of this run may be in the store; guarded by mu
	told     bool           // it is among those that the next look is for; guarded by mu
	advances bool           // a goroutine does what is due; guarded by mu
	cancels  bool           // this node is to cancel the members; guarded by mu
	surveys  bool           // a goroutine looks for members; guarded by mu
	left     bool           // gone is closed; guarded by mu

	progress bool          // something ended since the last tick; guarded by mu
	lookAt   time.Time     // when to look for members that are missing; guarded by mu
	quiet    time.Duration // the pause before the look after that; guarded by mu
	shownAt  time.Time     // when progress was last told; guarded by mu
}

// The pauses between looks for members of a batch that makes no progress. The first
// batch a node finds at its start is looked at at once.
const (
	firstQuiet = 5 * time.Second
	lastQuiet  = 5 * time.Minute
)

func newRoster(b *batches, id string) *roster {
	return &roster{
		batches: b, id: id, ready: make(chan struct{}), gone: make(chan struct{}),
		chunks: make(map[int]*chunk), changed: make(map[int]bool), quiet: firstQuiet, lookAt: time.Now().Add(firstQuiet),
	}
}

// note counts the end of a member: that of the last job of its chain.
func (t *roster) note(index int, f fate, job string) {
	if index < 0 || index >= MostMembers {
		return
	}
	t.mu.Lock()
	if t.set(index, f, job) {
		t.changed[index/chunkMembers] = true
		t.tell()
	}
	t.mu.Unlock()
	t.advance()
}

// set counts a member that has ended. It is called with mu held.
func (t *roster) set(index int, f fate, job string) bool {
	c := t.chunks[index/chunkMembers]
	if c == nil {
		c = new(chunk)
		t.chunks[index/chunkMembers] = c
	}
	if !c.set(index%chunkMembers, f) {
		return false
	}
	t.count[f]++
	t.progress = true
	if f == fateFailed && t.first == "" {
		t.first = job
	}
	return true
}

// merge counts what another run of a node has counted.
func (t *roster) merge(number int, other *chunk, created time.Time) {
	t.mu.Lock()
	if t.record != nil && t.record.created.UnixMicro() == created.UnixMicro() {
		c := t.chunks[number]
		if c == nil {
			c = new(chunk)
			t.chunks[number] = c
		}
		c.newIn(other, func(i int, f fate) { t.set(number*chunkMembers+i, f, "") })
	}
	t.mu.Unlock()
	t.advance()
}

// tell has the next look be for t too. It is called with mu held.
func (t *roster) tell() {
	if !t.told {
		t.told = true
		t.batches.tell(t)
	}
}

// learn takes in a record that was read or stored.
func (t *roster) learn(r *batchRecord) {
	t.mu.Lock()
	if !t.left && (t.record == nil || r.seq > t.record.seq) {
		t.record = r
		if t.first == "" {
			t.first = r.firstFailed
		}
	}
	t.mu.Unlock()
	t.isReady()
	t.advance()
}

func (t *roster) isReady() { t.once.Do(func() { close(t.ready) }) }

// ended is how many members have. It is called with mu held.
func (t *roster) ended() int {
	n := 0
	for _, c := range t.count {
		n += c
	}
	return n
}

// info tells what is counted; not ok says that the batch is not there.
func (t *roster) info() (i BatchInfo, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return BatchInfo{}, false
	}
	i = t.record.info()
	if t.record.ended.IsZero() {
		t.counted(&i)
	}
	return i, true
}

// counted puts what is counted into i. It is called with mu held.
func (t *roster) counted(i *BatchInfo) {
	i.OK, i.Failed, i.Canceled, i.Lost = t.count[fateOK], t.count[fateFailed], t.count[fateCanceled], t.count[fateLost]
	i.Ended, i.FirstFailed = t.ended(), t.first
	i.Total = max(i.Total, i.Ended)
}

// has tells whether a member has ended.
func (t *roster) has(index int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.chunks[index/chunkMembers]
	return c != nil && c.ended.has(index%chunkMembers)
}

// missing gives the members that have not ended, of those that there may be.
func (t *roster) missing() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return nil
	}
	var all []int
	for i := range t.record.end() {
		if c := t.chunks[i/chunkMembers]; c == nil || !c.ended.has(i%chunkMembers) {
			all = append(all, i)
		}
	}
	return all
}

// end is the number after the last member that there may be.
func (r *batchRecord) end() int {
	if r.state == BatchOpen {
		return r.begun.end()
	}
	return r.total
}

// A duty is one thing that is to be done for a batch, again until it succeeds.
type duty func(ctx context.Context, t *roster) error

// advance does what is due, in a goroutine of its own, where none does so already.
func (t *roster) advance() {
	t.mu.Lock()
	if t.advances || t.due() == nil {
		t.mu.Unlock()
		return
	}
	t.advances = true
	t.mu.Unlock()
	t.batches.queue.spawn(t.doDue) // ends when nothing is due, at the latest with live or the store
}

func (t *roster) doDue() {
	q := t.batches.queue
	wait := firstPause
	for {
		t.mu.Lock()
		do := t.due()
		t.advances = do != nil
		t.mu.Unlock()
		if do == nil {
			return
		}
		err := do(q.live, t)
		if err == nil {
			wait = firstPause
			continue
		}
		if q.hopeless(err) || !q.pauseFor(wait) {
			return
		}
		q.journal.emit(Event{Kind: NotKept, Batch: t.id, Text: "what is due for a batch: " + err.Error()})
		wait = min(2*wait, lastPause)
	}
}

// due returns what is to be done next, nil for nothing. It is called with mu held.
func (t *roster) due() duty {
	r := t.record
	switch {
	case r == nil || t.left:
		return nil
	case r.final():
		return leave
	case !r.ended.IsZero():
		return conclude
	case r.failed != nil && !r.failedDone && t.count[fateFailed] > 0:
		return tellFailure
	case r.state != BatchOpen && t.ended() >= r.total:
		return recordEnd
	case r.state == BatchCanceled && t.cancels:
		return cancelMembers
	default:
		return nil
	}
}
