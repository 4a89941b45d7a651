package batch

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// roster counts the members of one batch in this program.
type roster struct {
	batches *Batches
	id      string
	ready   chan struct{} // closed by isReady when the record was read or found missing
	gone    chan struct{} // closed when the batch is no longer counted here

	once sync.Once

	mu       sync.Mutex
	record   *record.Batch         // the newest known, nil before ready; guarded by mu
	chunks   map[int]*record.Chunk // guarded by mu
	changed  map[int]bool          // chunks to be stored; guarded by mu
	count    [record.Fates]int     // guarded by mu
	first    string                // the id of the first failed job, as far as is known; guarded by mu
	stored   bool                  // a chunk of this run may be in the store; guarded by mu
	pending  bool                  // the next look will handle it; guarded by mu
	advances bool                  // a goroutine carries out the duties; guarded by mu
	cancels  bool                  // this node shall cancel the members; guarded by mu
	surveys  bool                  // a goroutine runs survey; guarded by mu
	left     bool                  // gone is closed; guarded by mu

	progress bool          // a member ended since the last tick; guarded by mu
	lookAt   time.Time     // when to look for missing members; guarded by mu
	quiet    time.Duration // the pause before the following look; guarded by mu
	shownAt  time.Time     // when progress was last reported; guarded by mu
}

// The pauses between surveys of a batch without progress. Batches that a node finds at
// its start are surveyed at once.
const (
	firstQuiet = 5 * time.Second
	lastQuiet  = 5 * time.Minute
)

func newRoster(b *Batches, id string) *roster {
	return &roster{
		batches: b, id: id, ready: make(chan struct{}), gone: make(chan struct{}),
		chunks: make(map[int]*record.Chunk), changed: make(map[int]bool), quiet: firstQuiet, lookAt: time.Now().Add(firstQuiet),
	}
}

// note counts the end of a member, which is that of the last job of its chain.
func (t *roster) note(index int, f record.Fate, id string) {
	if index < 0 || index >= job.MostMembers {
		return
	}
	t.mu.Lock()
	if t.set(index, f, id) {
		t.changed[index/record.ChunkMembers] = true
		t.handleSoon()
	}
	t.mu.Unlock()
	t.advance()
}

// set counts a member that has ended. mu is held.
func (t *roster) set(index int, f record.Fate, job string) bool {
	c := t.chunks[index/record.ChunkMembers]
	if c == nil {
		c = new(record.Chunk)
		t.chunks[index/record.ChunkMembers] = c
	}
	if !c.Set(index%record.ChunkMembers, f) {
		return false
	}
	t.count[f]++
	t.progress = true
	if f == record.FateFailed && t.first == "" {
		t.first = job
	}
	return true
}

// merge adds what another run of a node has counted.
func (t *roster) merge(number int, other *record.Chunk, created time.Time) {
	t.mu.Lock()
	if t.record != nil && t.record.Created.UnixMicro() == created.UnixMicro() {
		c := t.chunks[number]
		if c == nil {
			c = new(record.Chunk)
			t.chunks[number] = c
		}
		c.NewIn(other, func(i int, f record.Fate) { t.set(number*record.ChunkMembers+i, f, "") })
	}
	t.mu.Unlock()
	t.advance()
}

// handleSoon makes the next look handle t too. mu is held.
func (t *roster) handleSoon() {
	if !t.pending {
		t.pending = true
		t.batches.handleSoon(t)
	}
}

// learn applies a record that was read or stored.
func (t *roster) learn(r *record.Batch) {
	t.mu.Lock()
	if !t.left && (t.record == nil || r.Seq > t.record.Seq) {
		t.record = r
		if t.first == "" {
			t.first = r.FirstFailed
		}
	}
	t.mu.Unlock()
	t.isReady()
	t.advance()
}

func (t *roster) isReady() { t.once.Do(func() { close(t.ready) }) }

// ended returns how many members have ended. mu is held.
func (t *roster) ended() int {
	n := 0
	for _, c := range t.count {
		n += c
	}
	return n
}

// info returns the counts so far; ok is false if the batch does not exist.
func (t *roster) info() (i job.BatchInfo, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return job.BatchInfo{}, false
	}
	i = t.record.Info()
	if t.record.Ended.IsZero() {
		t.counted(&i)
	}
	return i, true
}

// counted puts the counts into i. mu is held.
func (t *roster) counted(i *job.BatchInfo) {
	i.OK, i.Failed, i.Canceled, i.Lost = t.count[record.FateOK], t.count[record.FateFailed], t.count[record.FateCanceled], t.count[record.FateLost]
	i.Ended, i.FirstFailed = t.ended(), t.first
	i.Total = max(i.Total, i.Ended)
}

// has reports whether a member has ended.
func (t *roster) has(index int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.chunks[index/record.ChunkMembers]
	return c != nil && c.Ended.Has(index%record.ChunkMembers)
}

// missing returns the possible members that have not ended.
func (t *roster) missing() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return nil
	}
	var all []int
	for i := range t.record.End() {
		if c := t.chunks[i/record.ChunkMembers]; c == nil || !c.Ended.Has(i%record.ChunkMembers) {
			all = append(all, i)
		}
	}
	return all
}

// A duty is a step of a batch, repeated until it succeeds.
type duty func(ctx context.Context, t *roster) error

// advance carries out the duties in a goroutine of its own, unless one does so already.
func (t *roster) advance() {
	t.mu.Lock()
	if t.advances || t.due() == nil {
		t.mu.Unlock()
		return
	}
	t.advances = true
	t.mu.Unlock()
	t.batches.Spawn(t.doDue) // ends when nothing is due, at the latest with Live or the store
}

func (t *roster) doDue() {
	q := t.batches
	wait := jobs.FirstPause
	for {
		t.mu.Lock()
		do := t.due()
		t.advances = do != nil
		t.mu.Unlock()
		if do == nil {
			return
		}
		err := do(q.Live, t)
		if err == nil {
			wait = jobs.FirstPause
			continue
		}
		if q.Hopeless(err) || !q.PauseFor(wait) {
			return
		}
		q.Journal.Emit(job.Event{Kind: job.NotKept, Batch: t.id, Text: "the next step of a batch: " + err.Error()})
		wait = min(2*wait, jobs.LastPause)
	}
}

// due returns the next duty, nil for none. mu is held.
func (t *roster) due() duty {
	r := t.record
	switch {
	case r == nil || t.left:
		return nil
	case r.Final():
		return leave
	case !r.Ended.IsZero():
		return conclude
	case r.Failed != nil && !r.FailedDone && t.count[record.FateFailed] > 0:
		return fireFailed
	case r.State != job.BatchOpen && t.ended() >= r.Total:
		return recordEnd
	case r.State == job.BatchCanceled && t.cancels:
		return cancelMembers
	default:
		return nil
	}
}
